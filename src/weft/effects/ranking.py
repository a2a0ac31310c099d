"""Let a model rank the matches of memory, in requests that fit its context window."""

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
from weft.llm.context_window import measure_context_window
from weft.llm.events import OnEvent
from weft.llm.handler import Handler
from weft.llm.protocol import Model
from weft.memory.context.assembly import CountTokens
from weft.memory.protocol import Match

MAX_CANDIDATES = 60
"""How many pieces are ranked; the pieces after them keep their order."""

MAX_IN_CALL = 15
"""How many pieces a request shows: small models handle longer lists badly."""

MAX_CHOSEN = 8
"""How many pieces the response may name."""

MAX_TEXT_CHARACTERS = 600
"""How many characters of a piece are shown."""

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
"""Example requests and responses that show a small model the format."""


class Candidate(Struct, frozen=True):
    """A piece in the form shown to the model."""

    id: str
    text: str


class RankRequest(Struct, frozen=True, kw_only=True):
    """One request to rank a batch of pieces."""

    prompt: str
    candidates: tuple[Candidate, ...]
    """Sent as data, apart from the prompt: files may contain instructions."""
    schema: dict[str, Any]


class Reranked(Struct, frozen=True, kw_only=True):
    """The pieces in their new order, and the number of requests."""

    matches: tuple[Match, ...]
    calls: int = 0
    warnings: tuple[str, ...] = ()


class RankingFailed(Exception):
    """The model did not return a ranking."""


AskModel = Callable[[RankRequest], Awaitable[Any]]
"""Returns the JSON response of the model; raises RankingFailed."""


async def rerank(
    matches: Sequence[Match], task: str, ask: AskModel, count: CountTokens, max_tokens: int | None
) -> Reranked:
    """Return the pieces in the order chosen by the model, or in their old order if the model fails.

    They are sent in batches that fit into `max_tokens` tokens. The first of every batch come first, then the
    second of every batch; ties, and pieces that no response named, keep their old order.
    """
    shown, others = list(matches[:MAX_CANDIDATES]), list(matches[MAX_CANDIDATES:])
    ranks: dict[str, int] = {}
    calls = 0
    async for batch in batches([candidate_of(match) for match in shown], count, max_tokens):
        calls += 1
        try:
            chosen = _chosen_ids(await ask(_request(batch, task)), batch)
        except RankingFailed as error:
            warning = f"the matches of memory were not ranked by the model: {error}"
            return Reranked(matches=tuple(matches), calls=calls, warnings=(warning,))
        ranks |= {name: rank for rank, name in enumerate(chosen)}
    order = sorted(shown, key=lambda match: ranks.get(candidate_of(match).id, MAX_CANDIDATES))
    return Reranked(matches=tuple(_rescored(order, shown, ranks) + others), calls=calls)


def candidate_of(match: Match) -> Candidate:
    """Return a piece with the symbols it defines and the beginning of its text."""
    chunk = match.chunk
    names = f"defines {', '.join(chunk.symbols[:8])}\n" if chunk.symbols else ""
    text = chunk.text.strip()[:MAX_TEXT_CHARACTERS]
    part = f":{chunk.part[0] + 1}-{chunk.part[1]}" if chunk.part else ""
    return Candidate(f"{chunk.path}:{chunk.first_line}-{chunk.last_line}{part}", f"{names}{text}")


async def batches(
    candidates: Sequence[Candidate], count: CountTokens, max_tokens: int | None
) -> AsyncIterator[tuple[Candidate, ...]]:
    """Yield batches that fit into `max_tokens` tokens; a candidate that is too long is reduced to its id."""
    batch: list[Candidate] = []
    used = 0
    for one in _distinct(candidates):
        is_too_long = max_tokens is not None and await _tokens_of(one, count) > max_tokens
        candidate = Candidate(one.id, "") if is_too_long else one
        takes = await _tokens_of(candidate, count)
        if batch and (len(batch) == MAX_IN_CALL or (max_tokens is not None and used + takes > max_tokens)):
            yield tuple(batch)
            batch, used = [], 0
        batch.append(candidate)
        used += takes
    if batch:
        yield tuple(batch)


async def _tokens_of(candidate: Candidate, count: CountTokens) -> int:
    # The id occurs with the piece, in the schema, and possibly in the response.
    return await count(candidate.text) + 3 * await count(candidate.id) + 24


def _distinct(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return each id once: files of the same path in two roots share an id and a rank."""
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


def _chosen_ids(response: Any, batch: tuple[Candidate, ...]) -> list[str]:
    """Return the ids that the model named, each once; ignore ids that were not shown."""
    named = response.get("relevant") if isinstance(response, dict) else None
    if not isinstance(named, list):
        raise RankingFailed("the response of the model is not a list of ids")
    known = {candidate.id for candidate in batch}
    return list(dict.fromkeys(name for name in named if isinstance(name, str) and name in known))


def _rescored(order: Sequence[Match], before: Sequence[Match], ranks: dict[str, int]) -> list[Match]:
    """Return the pieces with the old scores in their new order, so that higher stays better."""
    scores = sorted((match.score for match in before), reverse=True)
    found = []
    for match, score in zip(order, scores, strict=True):
        rank = ranks.get(candidate_of(match).id)
        why = match.why if rank is None else {**match.why, "model": (f"rank {rank + 1}",)}
        found.append(structs.replace(match, score=score, why=why))
    return found


TEMPLATE = "system:rerank"
"""Template name of these requests in the usage ledger and for scripted models."""

MAX_TASK_CHARACTERS = 2_000
"""How many characters of the query the model is shown."""

_NO_CONTEXT = ContextPayload(ContextManagement("none", False, "notes_only", "disabled"))


class Ranker(Struct, frozen=True, kw_only=True):
    """A model that ranks matches, with the budget account that its requests are charged to."""

    model: Model
    settings: HandlerSettings
    account: BudgetAccount
    events: Callable[[ModelCall], OnEvent]
    """Returns the listener for the events of a request."""
    clock: Clock
    timeout_seconds: float | None = None

    async def ranked(self, step: Step, matches: tuple[Match, ...], task: str) -> Reranked:
        """Return the pieces in the model's order, or in their old order with a warning if it fails."""
        if len(matches) < 2:
            return Reranked(matches=matches)
        question = task[:MAX_TASK_CHARACTERS]
        window = await measure_context_window(
            step, self._call(question, {}), self.model, None, self.settings, self.clock
        )

        async def ask(request: RankRequest) -> Any:
            return await self._ask(step, request)

        return await rerank(matches, question, ask, window.count, window.tokens)

    async def _ask(self, step: Step, request: RankRequest) -> Any:
        call = self._call(request.prompt, request.schema)
        handler = Handler(self.model, None, self.settings, on_event=self.events(call), clock=self.clock)
        context = DataContext(
            items=tuple(
                MatchItem(id=one.id, content=one.text, content_type="candidate") for one in request.candidates
            )
        )
        try:
            return parse_output((await handler.run(step, call, self.account, context)).content, None)
        except TaskFailed as error:
            raise RankingFailed(error.message) from error
        except BadOutput as error:
            raise RankingFailed(f"the response of the model is not JSON: {error}") from error

    def _call(self, prompt: str, schema: dict[str, Any]) -> ModelCall:
        return ModelCall(
            prompt=prompt,
            system=SYSTEM,
            template=TEMPLATE,
            output_format=OutputFormat("json"),
            output_schema=schema,
            context=_NO_CONTEXT,
            conversation=tuple(Turn(question, answer) for question, answer in EXAMPLES),
            timeout_seconds=self.timeout_seconds,
        )
