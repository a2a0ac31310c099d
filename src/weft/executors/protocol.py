"""The executor protocol, and its helpers for inputs as typed structs and schemas of results."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct, field

from weft.errors import WeftError, text_of
from weft.ids import TaskId
from weft.tasks.json_schema import DRAFT_07
from weft.tasks.record import Dependency, ExecutorType, JsonObject, Task

DEFAULT_CANCEL_GRACE_SECONDS = 1.0
"""Default time that an executor has to end after it is cancelled."""

Report = Callable[[float], Awaitable[None]]
"""Reports progress to the engine, from 0.0 to 1.0."""


class Work(Struct, frozen=True, kw_only=True):
    """One attempt at a task, as passed to an executor."""

    task: Task
    attempt: int
    """Counted from 1. With the id of the task it makes an idempotency key, as a task may run more than
    once."""
    inputs: JsonObject
    """The task's inputs, including those that `params.input_mappings` takes from dependencies."""
    dependencies: Mapping[TaskId, JsonObject]
    """Results of the completed dependencies."""
    report: Report
    dependency_names: Mapping[TaskId, str] = field(default_factory=dict)
    """Names of the completed dependencies."""
    has_lease: Callable[[], bool] = field(default=lambda: True)
    """Returns True while this worker certainly holds the claim; False, for example, after its process was
    paused for longer than its lease. An executor that spends money checks this first."""
    is_cancelled: Callable[[], bool] = field(default=lambda: False)
    """Returns True if the attempt was cancelled. For synchronous functions, which run in a thread that cannot
    be stopped from outside: a long-running one polls this. (An `async` function is cancelled.) In a
    synchronous function `work.report(0.5)` needs no `await`."""


class Executor(Protocol):
    """Performs tasks."""

    @property
    def id(self) -> str:
        """Return the value of `schemas.method` that selects this executor."""
        ...

    @property
    def type(self) -> ExecutorType:
        """Return where the work is done."""
        ...

    @property
    def summary(self) -> str:
        """Return a description of the executor in one line."""
        ...

    @property
    def input_schema(self) -> JsonObject | None:
        """Return the JSON Schema (draft-07) of the inputs; None accepts any inputs."""
        ...

    async def execute(self, work: Work) -> Any:
        """Perform the task and return its result. Raise an exception to fail the task.

        A result that is not a JSON object is stored as `{"value": ...}`. `execute` is cancelled as an asyncio
        task when the attempt times out or is cancelled. It must then release its processes, connections and
        files within a second, or within the time of its attribute `cancel_grace_seconds`; after that it is
        abandoned. One executor performs many attempts concurrently.
        """
        ...


def uses_dependencies(executor: Executor) -> bool:
    """Return True if an executor needs `work.dependencies` even without mapped inputs.

    True unless its attribute `uses_dependencies` is False; then the engine does not read their results.
    """
    return getattr(executor, "uses_dependencies", True)


def cancel_grace_seconds(executor: Executor) -> float:
    """Return how long an executor may take to end after it is cancelled (`cancel_grace_seconds`).

    This never raises, since the caller is about to stop something: an attribute that has become invalid since
    registration counts as the default.
    """
    try:
        return required_cancel_grace_seconds(executor)
    except Exception:
        return DEFAULT_CANCEL_GRACE_SECONDS


def required_cancel_grace_seconds(executor: Executor) -> float:
    """Return `cancel_grace_seconds` of an executor. Raise TypeError if it is not a number of seconds."""
    seconds = given_cancel_grace_seconds(executor)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:  # false for NaN
        raise TypeError(
            f"executor '{executor.id}': cancel_grace_seconds must be a number of seconds, not {seconds!r}"
        )
    return seconds


def given_cancel_grace_seconds(executor: object) -> Any:
    """Return the attribute `cancel_grace_seconds`, else `let_go_seconds` (the old name), else the default."""
    earlier = getattr(executor, "let_go_seconds", DEFAULT_CANCEL_GRACE_SECONDS)
    return getattr(executor, "cancel_grace_seconds", earlier)


class Cancellable(Protocol):
    """An executor that is notified of a cancellation before its `execute` is cancelled.

    For work that continues elsewhere: a job on another machine, a thread, a request to a model that costs
    money until it is stopped. `invoke_executor` calls `cancel` once, whatever cancelled the
    attempt (a person, a time limit, a shutdown). It may take `CANCEL_SECONDS`; then, or as soon as it returns
    or raises, `execute` is cancelled as an asyncio task. The attempt is cancelled even if `cancel` fails.
    """

    async def cancel(self, work: Work) -> None:
        """Stop the work that `execute` started for the same task and attempt."""
        ...


class Suspend(Exception):
    """Raised by an executor to suspend its task.

    The attempt has no outcome: the task becomes pending, and is attempted again as soon as one of the tasks
    in `until`, which belong to the same flow, has ended, or at `wake_at`.
    """

    is_suspension = True
    """Tells telemetry that this is not a failure."""

    def __init__(
        self,
        until: Sequence[TaskId],
        dependencies: Sequence[Dependency] = (),
        *,
        wake_at: datetime | None = None,
    ) -> None:
        super().__init__(f"waits for {len(until)} tasks")
        self.until = tuple(until)
        self.wake_at = wake_at
        """When the wait times out; None: never."""
        self.dependencies = tuple(dependencies)
        """Dependencies that the task keeps besides `until`."""


class ExecutionFailed(WeftError):
    """An executor failed to perform its task."""

    code = "execution-failed"

    def __init__(
        self, message: str, *, is_permanent: bool = False, details: JsonObject | None = None
    ) -> None:
        # Accept an exception too, as in `raise ExecutionFailed(error)`; the store needs text.
        super().__init__(text_of(message))
        self.is_permanent = is_permanent
        """True if a further attempt would fail in the same way; a permanent failure is not retried."""
        self.details = details or {}


def permanent_failure(message: str) -> ExecutionFailed:
    """Return a failure that is not retried."""
    return ExecutionFailed(message, is_permanent=True)


def result_schema(**fields: str | JsonObject) -> JsonObject:
    """Return the schema of a result that has only these fields, each given as a type name or a schema."""
    properties = {name: {"type": kind} if isinstance(kind, str) else kind for name, kind in fields.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def output_schema_of(executor: Executor) -> JsonObject | None:
    """Return the attribute `output_schema` of an executor; None means any result."""
    found: Any = getattr(executor, "output_schema", None)
    return found if isinstance(found, dict) else None


T = TypeVar("T", bound=Struct)


class Inputs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of the inputs of an executor; unknown fields are rejected."""


def schema_of(kind: type[Inputs], **more: Any) -> JsonObject:
    """Return the draft-07 schema of inputs without nested structs; `more` are further schema keywords."""
    (schema,), definitions = msgspec.json.schema_components([kind], ref_template="#/definitions/{name}")
    flat = definitions.pop(schema["$ref"].rpartition("/")[2])
    flat.pop("title", None)
    flat.pop("description", None)
    if definitions:
        raise TypeError(f"{kind.__name__} is not flat: {', '.join(definitions)}")
    return {"$schema": DRAFT_07, **flat, **more}


def read_inputs(kind: type[T], inputs: JsonObject) -> T:
    """Convert the inputs to a struct. Raise a permanent ExecutionFailed if they do not match."""
    try:
        return msgspec.convert(inputs, kind)
    except msgspec.ValidationError as error:
        raise permanent_failure(f"wrong inputs: {error}") from error
