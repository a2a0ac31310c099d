"""The journal of a session's turns: finished turns are replayed and never performed twice."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from weft.evaluator.effects import Step
from weft.evaluator.results import TaskResult
from weft.evaluator.tools import ToolUse
from weft.llm.payload import HandlerPayload, Message, ModelReply, ToolMessage
from weft.llm.protocol import Model
from weft.tasks.steps import RequestFacts

C = TypeVar("C")


class TurnJournal:
    """Performs the turns and tool calls of a session; a subclass records their results, or replays them.

    A key is the step key of the session and the number of the turn or call in it: `3/1#2`. A resumed session
    makes the same turns and calls in the same order.
    """

    async def whole(self, call: Callable[[], Awaitable[TaskResult]]) -> TaskResult:
        """Perform a session that is not journalled turn by turn."""
        return await call()

    async def context(self, kind: type[C], find: Callable[[], Awaitable[C]]) -> C:
        """Return the data context of the session, of type `kind`: recorded if resumed, else from `find`."""
        return await find()

    async def known(
        self, step: Step, model: Model, payload: Callable[[], HandlerPayload]
    ) -> TaskResult | None:
        """Return a reusable result of an earlier task with the same first payload, or None."""
        return None

    async def reply(
        self,
        key: str,
        messages: Sequence[Message],
        ask: Callable[[], Awaitable[ModelReply]],
        has_more_turns: Callable[[ModelReply], bool],
    ) -> ModelReply:
        """Return the response of the next turn: the recorded one, or the result of `ask`.

        `messages` are those of the session so far, without the conversation before it. `has_more_turns` tells
        whether a response is followed by further turns.
        """
        return await ask()

    async def tool_message(
        self, key: str, use: ToolUse, call: Callable[[], Awaitable[ToolMessage]]
    ) -> ToolMessage:
        """Return the result of a tool call: the recorded one, or the result of `call`."""
        return await call()

    def record_facts(self, facts: RequestFacts) -> None:
        """Store what is known about the requests of the session besides their texts."""
