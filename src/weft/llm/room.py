"""How much data a task's window has room for, beside its prompt, its tools and its history."""

from collections.abc import Callable

from weft.clock import Clock
from weft.evaluator.data_context import DataContext
from weft.evaluator.effects import ModelCall, Step
from weft.evaluator.tools import Tools
from weft.llm.events import ModelEvent
from weft.llm.payload import HandlerPayload, PayloadMetadata, UserMessage
from weft.llm.protocol import Model
from weft.llm.session import Session
from weft.llm.toolset import find_tools
from weft.model_settings import HandlerSettings
from weft.secrets.registry import redact

SHARE = 0.75
"""How much of what is left memory may fill: the answer, or what the task says next, needs the rest."""

SHARE_WITH_TOOLS = 0.5
"""The same for a task with tools: their results come into the window too."""


class ContextRoom:
    """The room of one task."""

    def __init__(self, session: Callable[[DataContext], Session], model: Model) -> None:
        self._session = session
        self._model = model
        self._empty = 0
        self._limit = 0
        self.tokens: int | None = None
        """How many tokens memory may fill; None: the model's window is not known."""

    async def measure(self, *, has_tools: bool) -> None:
        """Find out how much is left beside the task itself."""
        self._empty = await self._tokens("")
        bare = self._session(DataContext())
        self._limit = bare.context_limit
        if self._limit:
            left = max(0, self._limit - await bare.tokens())
            self.tokens = int(left * (SHARE_WITH_TOOLS if has_tools else SHARE))

    async def count(self, text: str) -> int:
        """The tokens of a text."""
        return max(0, await self._tokens(text) - self._empty)

    async def fits(self, context: DataContext) -> bool:
        """Whether the task with this context fits the window."""
        return not self._limit or await self._session(context).tokens() <= self._limit

    async def _tokens(self, text: str) -> int:
        metadata = PayloadMetadata(self._model.id)
        message = UserMessage(f"x{text}")  # some templates refuse a message that is empty
        return await self._model.count_tokens(
            HandlerPayload(system_prompt="", messages=(message,), metadata=metadata)
        )


async def context_room(
    step: Step, call: ModelCall, model: Model, tools: Tools | None, settings: HandlerSettings, clock: Clock
) -> ContextRoom:
    """The room of a task that a handler with these parts is about to run."""
    definitions = (await find_tools(call.tools, tools, redact=redact, spawn=step.spawn)).definitions

    def session(context: DataContext) -> Session:
        return Session(
            step.key,
            call,
            model,
            settings,
            clock=clock,
            on_event=_ignored,
            tools=definitions,
            context=context,
        )

    room = ContextRoom(session, model)
    await room.measure(has_tools=bool(call.tools))
    return room


def _ignored(_: ModelEvent) -> None: ...
