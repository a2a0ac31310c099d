"""Rank what memory found by asking a model, in requests that fit its context window."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct, structs

from weft.clock import Clock
from weft.config.sections import HandlerSettings
from weft.evaluator.effects import BudgetAccount, ContextPayload, ModelCall, Step, Turn
from weft.evaluator.errors import TaskFailed
from weft.evaluator.output_parsing import BadOutput, parse_output
from weft.evaluator.results import DataContext, MatchItem
from weft.language.task_fields import ContextManagement, OutputFormat
from weft.llm.context_window import context_room
from weft.llm.events import OnEvent
from weft.llm.handler import Handler
from weft.llm.protocol import Model
from weft.memory.context.assembly import CountTokens
from weft.memory.protocol import Match

MAX_CANDIDATES = 60
"""How many pieces are looked at again; those after them keep their order."""

MAX_IN_CALL = 15
"""How many pieces a call shows: small models lose the thread of longer lists."""

MAX_CHOSEN = 8
"""How many pieces a call may name."""

MAX_TEXT_CHARACTERS = 600
"""How much of a piece's text is shown: what it is, not all of it."""

SYSTEM = (
    "You choose which pieces of a project help with a task. Answer with the ids of those that help, the most "
    "helpful first. Leave out pieces that do not help."
)

_LOGIN = (
    "Task: why does the login page forget the user? Pieces: web/session.py:1-30 (class Session, cookies of a "
    "user), docs/colours.md:1-12 (colours of the page), web/login.py:10-60 (def login_view)"
)
_PRICES = (
    "Task: round prices to cents. Pieces: mail/send.py:1-40 (def send), shop/prices.py:1-25 (def rounded)"
)

EXAMPLES = (
    (_LOGIN, '{"relevant": ["web/login.py:10-60", "web/session.py:1-30"]}'),
    (_PRICES, '{"relevant": ["shop/prices.py:1-25"]}'),
)
"""Questions and answers that come before: they show a small model the form."""


class Candidate(Struct, frozen=True):
    """A piece as the model sees it."""

    id: str
    text: str


class RankRequest(Struct, frozen=True, kw_only=True):
    """What a model is asked in one call."""

    prompt: str
    candidates: tuple[Candidate, ...]
    """Data: shown apart from the prompt, for files may say anything."""
    schema: dict[str, Any]


class Reranked(Struct, frozen=True, kw_only=True):
    """The pieces in their new order, and what it took."""

    matches: tuple[Match, ...]
    calls: int = 0
    warnings: tuple[str, ...] = ()


class RankingFailed(Exception):
    """A model gave no order."""


AskModel = Callable[[RankRequest], Awaitable[Any]]
"""Gives the JSON that the model answered; raises RankingFailed."""


async def rerank(
    matches: Sequence[Match], task: str, ask: AskModel, count: CountTokens, room: int | None
) -> Reranked:
    """The pieces in the order that the model gives; in the order they have when the model fails.

    They are shown in batches that fit `room` tokens. The first of every batch come first, then the second of
    every batch; among equals, and for those that no call named, the order they had before decides.
    """
    shown, rest = list(matches[:MAX_CANDIDATES]), list(matches[MAX_CANDIDATES:])
    ranks: dict[str, int] = {}
    calls = 0
    async for batch in batches([candidate_of(match) for match in shown], count, room):
        calls += 1
        try:
            chosen = _ids(await ask(_request(batch, task)), batch)
        except RankingFailed as error:
            warning = f"what memory found is not ranked again: {error}"
            return Reranked(matches=tuple(matches), calls=calls, warnings=(warning,))
        ranks |= {name: rank for rank, name in enumerate(chosen)}
    order = sorted(shown, key=lambda match: ranks.get(candidate_of(match).id, MAX_CANDIDATES))
    return Reranked(matches=tuple(_rescored(order, shown, ranks) + rest), calls=calls)


def candidate_of(match: Match) -> Candidate:
    """The piece with its names and the beginning of its text."""
    chunk = match.chunk
    names = f"defines {', '.join(chunk.symbols[:8])}\n" if chunk.symbols else ""
    text = chunk.text.strip()[:MAX_TEXT_CHARACTERS]
    part = f":{chunk.part[0] + 1}-{chunk.part[1]}" if chunk.part else ""
    return Candidate(f"{chunk.path}:{chunk.first_line}-{chunk.last_line}{part}", f"{names}{text}")


async def batches(
    candidates: Sequence[Candidate], count: CountTokens, room: int | None
) -> AsyncIterator[tuple[Candidate, ...]]:
    """The candidates in groups that fit; one that does not fit alone is shown by its id."""
    batch: list[Candidate] = []
    used = 0
    for one in _distinct(candidates):
        is_too_long = room is not None and await _cost(one, count) > room
        candidate = Candidate(one.id, "") if is_too_long else one
        takes = await _cost(candidate, count)
        if batch and (len(batch) == MAX_IN_CALL or (room is not None and used + takes > room)):
            yield tuple(batch)
            batch, used = [], 0
        batch.append(candidate)
        used += takes
    if batch:
        yield tuple(batch)


async def _cost(candidate: Candidate, count: CountTokens) -> int:
    # The id stands with the piece, in the schema, and may stand in the answer.
    return await count(candidate.text) + 3 * await count(candidate.id) + 24


def _distinct(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Each id once: two roots may have files of the same name, which then rank alike."""
    first: dict[str, Candidate] = {}
    for candidate in candidates:
        first.setdefault(candidate.id, candidate)
    return list(first.values())


def _request(batch: tuple[Candidate, ...], task: str) -> RankRequest:
    most = min(MAX_CHOSEN, len(batch))
    names = [candidate.id for candidate in batch]
    schema = {
        "type": "object",
        "properties": {
            "relevant": {"type": "array", "items": {"enum": names}, "minItems": 0, "maxItems": most}
        },
        "required": ["relevant"],
        "additionalProperties": False,
    }
    prompt = f"Task: {task}\n\nWhich of the pieces help with it? Name at most {most}, the most helpful first."
    return RankRequest(prompt=prompt, candidates=batch, schema=schema)


def _ids(answer: Any, batch: tuple[Candidate, ...]) -> list[str]:
    """The ids that the model named, each once; a name that was not shown is passed over."""
    named = answer.get("relevant") if isinstance(answer, dict) else None
    if not isinstance(named, list):
        raise RankingFailed("the model gave no list of ids")
    known = {candidate.id for candidate in batch}
    return list(dict.fromkeys(name for name in named if isinstance(name, str) and name in known))


def _rescored(order: Sequence[Match], before: Sequence[Match], ranks: dict[str, int]) -> list[Match]:
    """The pieces with the scores of the places they have now, so that larger stays better."""
    scores = sorted((match.score for match in before), reverse=True)
    found = []
    for match, score in zip(order, scores, strict=True):
        rank = ranks.get(candidate_of(match).id)
        why = match.why if rank is None else {**match.why, "model": (f"rank {rank + 1}",)}
        found.append(structs.replace(match, score=score, why=why))
    return found


TEMPLATE = "system:rerank"
"""Whose requests these are, in the ledger and for scripted answers."""

MAX_TASK_CHARACTERS = 2_000
"""How much of the question the model is shown."""

_BARE = ContextPayload(ContextManagement("none", False, "notes_only", "disabled"))


class Ranker(Struct, frozen=True, kw_only=True):
    """A model that can be asked, and what its requests count in."""

    model: Model
    settings: HandlerSettings
    purse: BudgetAccount
    events: Callable[[ModelCall], OnEvent]
    clock: Clock
    timeout_seconds: float | None = None

    async def ranked(self, step: Step, matches: tuple[Match, ...], task: str) -> Reranked:
        """The pieces in the model's order; in their own, with a warning, when it gives none."""
        if len(matches) < 2:
            return Reranked(matches=matches)
        question = task[:MAX_TASK_CHARACTERS]
        room = await context_room(step, self._call(question, {}), self.model, None, self.settings, self.clock)

        async def ask(request: RankRequest) -> Any:
            return await self._ask(step, request)

        return await rerank(matches, question, ask, room.count, room.tokens)

    async def _ask(self, step: Step, request: RankRequest) -> Any:
        call = self._call(request.prompt, request.schema)
        handler = Handler(self.model, None, self.settings, on_event=self.events(call), clock=self.clock)
        context = DataContext(
            items=tuple(
                MatchItem(id=one.id, content=one.text, content_type="candidate") for one in request.candidates
            )
        )
        try:
            return parse_output((await handler.run(step, call, self.purse, context)).content, None)
        except TaskFailed as error:
            raise RankingFailed(error.message) from error
        except BadOutput as error:
            raise RankingFailed(f"the model's answer is no JSON: {error}") from error

    def _call(self, prompt: str, schema: dict[str, Any]) -> ModelCall:
        return ModelCall(
            prompt=prompt,
            system=SYSTEM,
            template=TEMPLATE,
            output_format=OutputFormat("json"),
            output_schema=schema,
            context=_BARE,
            conversation=tuple(Turn(question, answer) for question, answer in EXAMPLES),
            timeout_seconds=self.timeout_seconds,
        )
