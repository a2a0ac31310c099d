"""Where the turns of a session are kept, so that none that has ended is ever made twice."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from weft.evaluator.effects import Step
from weft.evaluator.results import TaskResult
from weft.evaluator.tools import ToolUse
from weft.llm.payload import HandlerPayload, Message, ModelReply, ToolMessage
from weft.llm.protocol import Model

C = TypeVar("C")


class TurnJournal(Protocol):
    """Performs what a session asks for, or gives what is known of it already.

    A key is that of the session's step and a number: `3/1#2`. The same session asks in the same order.
    """

    async def context(self, kind: type[C], find: Callable[[], Awaitable[C]]) -> C:
        """The data that the session works on: what it began with if it goes on, else what is found now."""
        ...

    async def known(
        self, step: Step, model: Model, payload: Callable[[], HandlerPayload]
    ) -> TaskResult | None:
        """The result of the whole task, if one to the same first payload is known and may be used."""
        ...

    async def reply(
        self,
        key: str,
        said: Sequence[Message],
        ask: Callable[[], Awaitable[ModelReply]],
        goes_on: Callable[[ModelReply], bool],
    ) -> ModelReply:
        """The answer to the next payload.

        `said` is what the session has said and was told so far, without the conversation before it; `goes_on`
        says of an answer whether there are further turns after it.
        """
        ...

    async def tool_message(
        self, key: str, use: ToolUse, call: Callable[[], Awaitable[ToolMessage]]
    ) -> ToolMessage:
        """What a tool gave."""
        ...


class NullTurnLog:
    """Performs everything and keeps nothing."""

    async def context(self, kind: type[C], find: Callable[[], Awaitable[C]]) -> C:
        return await find()

    async def known(
        self, step: Step, model: Model, payload: Callable[[], HandlerPayload]
    ) -> TaskResult | None:
        return None

    async def reply(
        self,
        key: str,
        said: Sequence[Message],
        ask: Callable[[], Awaitable[ModelReply]],
        goes_on: Callable[[ModelReply], bool],
    ) -> ModelReply:
        return await ask()

    async def tool_message(
        self, key: str, use: ToolUse, call: Callable[[], Awaitable[ToolMessage]]
    ) -> ToolMessage:
        return await call()
