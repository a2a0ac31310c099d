"""Journalled turns of a model session, so that a resumed run repeats no request."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from weft.evaluator.effects import ModelCall, Step
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskResult
from weft.evaluator.tools import ToolUse
from weft.llm.payload import HandlerPayload, Message, ModelReply, ToolMessage
from weft.llm.protocol import Model
from weft.llm.turn_log import TurnJournal
from weft.runs.journal import Journal, OpenStep
from weft.runs.replay import resumable
from weft.runs.reuse import digest, payload_digest, turn_digest
from weft.secrets.registry import has_secrets, redact_json
from weft.store.models import StoredStep
from weft.tasks.record import Status, Task
from weft.tasks.steps import RequestFacts, with_step_fields

C = TypeVar("C")


LEASE_POLL_SECONDS = 0.05
"""Interval between checks of the lease; leases are renewed every second."""


class LeasedSlots:
    """Slots for effects, available only while this worker holds its lease.

    A worker that was frozen past its lease wakes up in the middle of its program. It must not repeat a
    request that its successor has made meanwhile. It waits here until its lease is renewed, or until its
    attempts are cancelled because another worker has claimed them.
    """

    def __init__(self, slots: asyncio.Semaphore, has_lease: Callable[[], bool]) -> None:
        self._slots = slots
        self._has_lease = has_lease

    async def __aenter__(self) -> None:
        await self._slots.acquire()
        try:
            while not self._has_lease():  # noqa: ASYNC110 - a lease is a time, not an event
                await asyncio.sleep(LEASE_POLL_SECONDS)
        except BaseException:
            self._slots.release()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._slots.release()


CONTEXT = "context"
"""Input of the first turn's record that holds the data with which the session started."""


class JournaledSession(TurnJournal):
    """The journal of one model session; the last turn is stored as the result of the step itself."""

    def __init__(
        self,
        journal: Journal,
        step: Step,
        opened: OpenStep,
        call: ModelCall,
        slots: LeasedSlots,
        find: Callable[[str | None], Awaitable[Task | None]],
    ) -> None:
        """Create the journal; `find` looks up a step with an equal request by its reuse digest."""
        self._journal = journal
        self._step = step
        self._opened = opened
        self._call = call
        self._slots = slots
        self._find = find
        self._first_inputs: dict[str, Any] = {}
        """Inputs to store with the first turn."""
        self.source: Task | None = None
        """The step of another run that the result is reused from."""
        self.reuse_hash: str | None = None

    async def whole(self, call: Callable[[], Awaitable[TaskResult]]) -> TaskResult:
        async with self._slots:
            return await call()

    async def context(self, kind: type[C], find: Callable[[], Awaitable[C]]) -> C:
        """Return the recorded data of the session's start, even if files have changed, or find new data."""
        key = f"{self._step.key}#1"
        began = self._journal.past.given_to(key) if self._journal.past else None
        if began is not None and CONTEXT in began:
            return msgspec.convert(began[CONTEXT], kind)
        found = await find()
        if self._call.files is not None or self._call.context.wants_fresh:
            self._first_inputs = {CONTEXT: found}
        return found

    async def known(
        self, step: Step, model: Model, payload: Callable[[], HandlerPayload]
    ) -> TaskResult | None:
        """Return the result of an equal request of another run; None if there is no such result to reuse."""
        # Results of tools may have changed since: a task with tools reuses only if it asks for that.
        if not (not self._call.tools if self._call.reuse is None else self._call.reuse):
            return None
        self.reuse_hash = payload_digest(payload(), model.settings_digest)
        self.source = await self._find(self.reuse_hash)
        return None if self.source is None else msgspec.convert(self.source.result, TaskResult)

    async def reply(
        self,
        key: str,
        messages: Sequence[Message],
        ask: Callable[[], Awaitable[ModelReply]],
        has_more_turns: Callable[[ModelReply], bool],
    ) -> ModelReply:
        """Return the recorded response of the turn, or a new one, which is stored if further turns follow."""
        input_hash, name = turn_digest(messages), f"turn {key.rpartition('#')[2]}"
        found = self._find_recorded(key, input_hash, name)
        if found is not None and found.task.status is Status.COMPLETED:
            return msgspec.convert(found.task.result, ModelReply)
        async with self._slots:
            reply = await ask()
        if not has_more_turns(reply):
            return reply
        inputs = msgspec.to_builtins(self._first_inputs) if key.endswith("#1") else {}
        turn = self._journal.begin_part(key, input_hash, name, "turn", inputs=inputs)
        stored = await self._journal.complete(turn, msgspec.to_builtins(reply))
        return msgspec.convert(stored, ModelReply)

    async def tool_message(
        self, key: str, use: ToolUse, call: Callable[[], Awaitable[ToolMessage]]
    ) -> ToolMessage:
        """Return the recorded message of the tool call, or make the call and store its message."""
        input_hash = digest(use)
        found = self._find_recorded(key, input_hash, use.name)
        if found is not None and found.task.status is Status.COMPLETED:
            return msgspec.convert(found.task.result, ToolMessage)
        opened = self._journal.begin_part(key, input_hash, use.name, "tool", before=resumable(found))
        try:
            message = await call()
        except TaskFailed as error:  # from a subtask: an enclosing budget is exceeded
            self._journal.fail_soon(opened, error)
            raise
        except BaseException:
            self._journal.cancel_attempt(opened)
            raise
        stored = await self._journal.complete(opened, msgspec.to_builtins(message))
        return msgspec.convert(stored, ToolMessage)

    def record_facts(self, facts: RequestFacts) -> None:
        """Add the facts to the record of the step, which is stored when the step ends."""
        fields = msgspec.to_builtins(facts)
        self._opened.task = with_step_fields(
            self._opened.task, request=redact_json(fields) if has_secrets() else fields
        )

    def _find_recorded(self, key: str, input_hash: str, name: str) -> StoredStep | None:
        """Return the record of a turn or tool call; raise ReplayDiffers if the key has another request."""
        past = self._journal.past
        return past.part(key, input_hash, name, self._step.span) if past else None
