"""What an executor is: code that performs a task record, found by `schemas.method`."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from weft.errors import WeftError
from weft.ids import TaskId
from weft.tasks.record import ExecutorType, JsonObject, Task

Report = Callable[[float], Awaitable[None]]
"""Tells the engine how far the work is, from 0.0 to 1.0."""


class Work(Struct, frozen=True, kw_only=True):
    """What an executor gets: one attempt at one task."""

    task: Task
    attempt: int
    """Counts from 1. With the task's id it makes an idempotency key: a body may run more than once."""
    inputs: JsonObject
    """The task's inputs, with those filled in that `params.input_mappings` takes from dependencies."""
    dependencies: Mapping[TaskId, JsonObject]
    """The results of the task's completed dependencies."""
    report: Report


class Executor(Protocol):
    """Performs tasks."""

    @property
    def id(self) -> str:
        """What `schemas.method` names."""
        ...

    @property
    def type(self) -> ExecutorType:
        """Where it runs."""
        ...

    @property
    def summary(self) -> str:
        """One line on what it does."""
        ...

    @property
    def input_schema(self) -> JsonObject | None:
        """The JSON Schema (draft-07) its inputs must satisfy; None: anything goes."""
        ...

    async def execute(self, work: Work) -> Any:
        """The result; what is no JSON object is stored as `{"value": ...}`. Raises to fail the task.

        It is cancelled as an asyncio task when the attempt times out or is called off, and must then let go
        of everything it holds: processes, connections, files.
        """
        ...


class ExecutionFailed(WeftError):
    """An executor could not do its work."""

    code = "execution-failed"

    def __init__(
        self, message: str, *, is_permanent: bool = False, details: JsonObject | None = None
    ) -> None:
        super().__init__(message)
        self.is_permanent = is_permanent
        """Whether a further attempt would end the same way; a permanent failure is not retried."""
        self.details = details or {}
