"""The executor protocol: inputs as typed structs, the JSON Schema of results."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct, field

from weft.errors import WeftError, text_of
from weft.ids import TaskId
from weft.tasks.json_schema import DRAFT_07
from weft.tasks.record import Dependency, ExecutorType, JsonObject, Task

LET_GO_SECONDS = 1.0
"""How long an executor may take to end once it is cancelled, unless it says otherwise."""

Report = Callable[[float], Awaitable[None]]
"""Tells the engine how far the work is, from 0.0 to 1.0."""


def _never() -> bool:
    return False


def _always() -> bool:
    return True


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
    dependency_names: Mapping[TaskId, str] = field(default_factory=dict)
    """The names of those dependencies."""
    has_lease: Callable[[], bool] = _always
    """Whether the attempt is surely still this process's: not after it was frozen for longer than its lease.
    An executor that spends money asks before it does."""
    is_cancelled: Callable[[], bool] = _never
    """Whether the attempt was called off. For plain functions, which run in a thread: nothing can stop a
    thread from outside, so a long one asks now and then. (An `async` one is cancelled.) In a plain function
    `work.report(0.5)` needs no `await`."""


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
        of everything it holds: processes, connections, files, within a second or what its attribute
        `let_go_seconds` says. After that it is abandoned. One executor serves many attempts at a time.
        """
        ...


def uses_dependencies(executor: Executor) -> bool:
    """Whether an executor wants `work.dependencies` even when no input is mapped from one.

    It does unless it has an attribute of that name that says otherwise; the engine then need not read them.
    """
    return getattr(executor, "uses_dependencies", True)


def let_go_seconds(executor: Executor) -> float:
    """How long an executor may take to end once it is cancelled: what its attribute of that name says.

    Never raises, since who asks is about to stop something: one that has come to say nonsense since it was
    registered gets the usual time.
    """
    try:
        return required_let_go_seconds(executor)
    except Exception:
        return LET_GO_SECONDS


def required_let_go_seconds(executor: Executor) -> float:
    """The same; raises TypeError when it is no number of seconds."""
    seconds = getattr(executor, "let_go_seconds", LET_GO_SECONDS)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:  # NaN is not
        raise TypeError(
            f"executor '{executor.id}': let_go_seconds must be a number of seconds, not {seconds!r}"
        )
    return seconds


class Cancellable(Protocol):
    """An executor that wants to hear that an attempt is called off, before its `execute` is cancelled.

    For work that goes on elsewhere: a job on another machine, a thread, a model's request that costs until
    it is stopped. `weft.executors.invoke.perform` calls it, once, however the attempt came to be
    cancelled (a person, a time limit, a shutdown). It may take `CANCEL_SECONDS`; then, or as soon as it
    returns or raises, `execute` is cancelled as an asyncio task. Its outcome does not matter: the attempt
    is cancelled either way.
    """

    async def cancel(self, work: Work) -> None:
        """Stop the work that `execute` began for the same task and attempt."""
        ...


class Rests(Exception):
    """Raised by an executor to let go of everything until something else has happened.

    The attempt has no outcome: the task is pending, and there is another attempt as soon as one of the tasks
    that it waits for, of the same flow, has ended.
    """

    is_rest = True
    """For spans: it is no failure."""

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
        """When the task has waited long enough; a process that serves the store has it go on then."""
        self.dependencies = tuple(dependencies)
        """What the task depends on anyway."""


class ExecutionFailed(WeftError):
    """An executor could not do its work."""

    code = "execution-failed"

    def __init__(
        self, message: str, *, is_permanent: bool = False, details: JsonObject | None = None
    ) -> None:
        # `raise ExecutionFailed(error)` is easily written; the store holds text.
        super().__init__(text_of(message))
        self.is_permanent = is_permanent
        """Whether a further attempt would end the same way; a permanent failure is not retried."""
        self.details = details or {}


def result_schema(**fields: str | JsonObject) -> JsonObject:
    """The schema of a result that has no other fields than these, each a type's name or a schema."""
    properties = {name: {"type": kind} if isinstance(kind, str) else kind for name, kind in fields.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def output_schema_of(executor: Executor) -> JsonObject | None:
    """What an executor's attribute `output_schema` says of its results; None: they may be anything."""
    found: Any = getattr(executor, "output_schema", None)
    return found if isinstance(found, dict) else None


T = TypeVar("T", bound=Struct)


class Inputs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of what an executor takes: exactly these fields."""


def schema_of(kind: type[Inputs], **more: Any) -> JsonObject:
    """The draft-07 schema of inputs that are flat, with `more` rules between the fields."""
    (schema,), definitions = msgspec.json.schema_components([kind], ref_template="#/definitions/{name}")
    flat = definitions.pop(schema["$ref"].rpartition("/")[2])
    flat.pop("title", None)
    flat.pop("description", None)
    if definitions:
        raise TypeError(f"{kind.__name__} is not flat: {', '.join(definitions)}")
    return {"$schema": DRAFT_07, **flat, **more}


def read_inputs(kind: type[T], inputs: JsonObject) -> T:
    """The inputs as a struct; what does not fit fails the task for good, since no retry changes it."""
    try:
        return msgspec.convert(inputs, kind)
    except msgspec.ValidationError as error:
        raise ExecutionFailed(f"wrong inputs: {error}", is_permanent=True) from error
