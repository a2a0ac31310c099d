"""The state machine of a task, as a table. Every move that is not in the table is rejected."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar

from msgspec import Struct

from weft.errors import RequestError
from weft.limits import clean_text
from weft.tasks.events import EventType
from weft.tasks.parsing.problems import is_json, shown
from weft.tasks.record import JsonObject, Status, Task, evolve


class FrozenTask(RequestError):
    """The task is part of an archive, which cannot be changed."""

    code = "frozen"

    def __init__(self, *, task_id: str) -> None:
        super().__init__(f"task {task_id} is archived and cannot change; copy it to work with it")
        self.task_id = task_id


class InvalidTransition(RequestError):
    """The state of the task does not allow this move."""

    code = "invalid-transition"

    def __init__(self, *, task_id: str, status: Status, move: str) -> None:
        super().__init__(f"task {task_id} is {status} and cannot be {move}: {_HINTS[status]}")
        self.task_id = task_id
        self.status = status
        self.move = move


class InvalidResult(RequestError):
    """A result is not a JSON object."""

    code = "invalid-result"

    def __init__(self, result: Any) -> None:
        super().__init__(f"a result must be a JSON object, not {shown(result)!r}")


_HINTS = {
    Status.PENDING: "a pending task can be started or cancelled",
    Status.IN_PROGRESS: "a task in progress can be completed, failed or cancelled",
    Status.COMPLETED: "a completed task cannot change; copy it to run it again",
    Status.FAILED: "a failed task can be retried",
    Status.CANCELLED: "a cancelled task cannot change; copy it to run it again",
}


class Started(Struct, frozen=True):
    """An attempt started."""

    verb: ClassVar[str] = "started"
    event_type: ClassVar[EventType] = EventType.TASK_STARTED
    at: datetime


class Completed(Struct, frozen=True):
    """The attempt succeeded."""

    verb: ClassVar[str] = "completed"
    event_type: ClassVar[EventType] = EventType.TASK_COMPLETED
    at: datetime
    result: JsonObject


class Failed(Struct, frozen=True):
    """The attempt failed."""

    verb: ClassVar[str] = "failed"
    event_type: ClassVar[EventType] = EventType.TASK_FAILED
    at: datetime
    error: str


class Cancelled(Struct, frozen=True):
    """The task was cancelled."""

    verb: ClassVar[str] = "cancelled"
    event_type: ClassVar[EventType] = EventType.TASK_CANCELLED
    at: datetime
    error: str = "cancelled"


class Retried(Struct, frozen=True):
    """A person or a policy requested a further attempt."""

    verb: ClassVar[str] = "retried"
    event_type: ClassVar[EventType] = EventType.TASK_RETRIED
    at: datetime


Move = Started | Completed | Failed | Cancelled | Retried
Outcome = Completed | Failed | Cancelled


def _start(task: Task, move: Started) -> Task:
    return evolve(task, status=Status.IN_PROGRESS, started_at=move.at, updated_at=move.at)


def _complete(task: Task, move: Completed) -> Task:
    require_object(move.result)
    return evolve(
        task,
        status=Status.COMPLETED,
        result=move.result,
        progress=1.0,
        completed_at=move.at,
        updated_at=move.at,
    )


def _end(task: Task, move: Failed | Cancelled) -> Task:
    error, status = error_text(move.error), Status(move.verb)
    return evolve(task, status=status, error=error, completed_at=move.at, updated_at=move.at)


def _retry(task: Task, move: Retried) -> Task:
    return evolve(
        task,
        status=Status.PENDING,
        error=None,
        progress=0.0,
        started_at=None,
        completed_at=None,
        updated_at=move.at,
    )


TRANSITIONS: dict[tuple[Status, type[Move]], Callable[[Task, Any], Task]] = {
    (Status.PENDING, Started): _start,
    (Status.PENDING, Cancelled): _end,
    (Status.IN_PROGRESS, Completed): _complete,
    (Status.IN_PROGRESS, Failed): _end,
    (Status.IN_PROGRESS, Cancelled): _end,
    (Status.FAILED, Retried): _retry,
}


def transition(task: Task, move: Move) -> Task:
    """Return the task after the move. Raise InvalidTransition or FrozenTask if it is not allowed."""
    require_changeable(task)
    apply = TRANSITIONS.get((task.status, type(move)))
    if apply is None:
        raise InvalidTransition(task_id=task.id, status=task.status, move=move.verb)
    return apply(task, move)


def require_changeable(task: Task) -> None:
    """Raise FrozenTask if the task is archived."""
    if task.is_frozen:
        raise FrozenTask(task_id=task.id)


def require_object(result: Any) -> None:
    """Raise InvalidResult unless a result is a JSON object, the only type that the record can hold."""
    if not isinstance(result, dict) or not is_json(result):
        raise InvalidResult(result)


def fraction(progress: float) -> float:
    """Return the progress clamped to 0 and 1; NaN, from an executor that divides 0 by 0, becomes 0."""
    return min(max(0.0, progress), 1.0)  # in this order: max(0.0, nan) is 0.0, max(nan, 0.0) is nan


def error_text(text: str) -> str:
    """Return the text in a form that every store can hold, and not empty."""
    return clean_text(text) or "failed without a message"
