"""Asks a model to rank what memory found: as every request is made, with a purse, events and limits."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from weft.clock import Clock
from weft.evaluator.data_context import DataContext, MatchItem
from weft.evaluator.effects import ContextPayload, ModelCall, Step, Turn
from weft.evaluator.errors import TaskFailed
from weft.evaluator.outputs import BadOutput, parse_output
from weft.evaluator.purse import Purse
from weft.language.task_fields import ContextManagement, OutputFormat
from weft.llm.events import OnEvent
from weft.llm.handler import Handler
from weft.llm.protocol import Model
from weft.llm.room import context_room
from weft.memory.protocol import Match
from weft.memory.rerank import EXAMPLES, SYSTEM, RankingFailed, RankRequest, Reranked, rerank
from weft.model_settings import HandlerSettings

TEMPLATE = "system:rerank"
"""Whose requests these are, in the ledger and for scripted answers."""

MAX_TASK_CHARACTERS = 2_000
"""How much of the question the model is shown."""

_BARE = ContextPayload(ContextManagement("none", False, "notes_only", "disabled"))


class Ranker(Struct, frozen=True, kw_only=True):
    """A model that can be asked, and what its requests count in."""

    model: Model
    settings: HandlerSettings
    purse: Purse
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
