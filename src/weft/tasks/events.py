"""Events of flows: an append-only, ordered log."""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from weft.ids import TaskId
from weft.tasks.record import JsonObject, Task


class EventType(StrEnum):
    """The kinds of events."""

    FLOW_CREATED = "flow.created"
    TASK_STARTED = "task.started"
    TASK_PROGRESSED = "task.progressed"
    TASK_COMPLETED = "task.completed"
    TASK_FAILED = "task.failed"
    TASK_CANCELLED = "task.cancelled"
    TASK_RETRIED = "task.retried"
    TASK_SUSPENDED = "task.suspended"
    TASK_RELEASED = "task.released"
    SCHEDULE_FIRED = "schedule.fired"
    SCHEDULE_SKIPPED = "schedule.skipped"
    SCHEDULE_ENDED = "schedule.ended"
    SCHEDULE_REPLANNED = "schedule.replanned"
    TASK_UPDATED = "task.updated"
    TASK_DELETED = "task.deleted"
    TASK_REFERENCED = "task.referenced"

    @classmethod
    def _missing_(cls, value: object) -> "EventType | None":
        """Return the type that an older store wrote under another name."""
        return _OLD_NAMES.get(value)


_OLD_NAMES: dict[object, EventType] = {
    "task.rested": EventType.TASK_SUSPENDED,
    "task.given_back": EventType.TASK_RELEASED,
}


class NewEvent(Struct, frozen=True):
    """An event that the store has not numbered yet."""

    type: EventType
    task_id: TaskId
    task_tree_id: TaskId
    user_id: str | None
    at: datetime
    facts: JsonObject = {}


def task_event(kind: EventType, task: Task, at: datetime, facts: JsonObject) -> NewEvent:
    """Return an event of a task."""
    return NewEvent(kind, task.id, task.task_tree_id or task.id, task.user_id, at, facts)


class Event(Struct, frozen=True, kw_only=True):
    """One entry of the log; `seq` grows in commit order."""

    seq: int
    type: EventType
    task_id: TaskId
    task_tree_id: TaskId
    user_id: str | None
    at: datetime
    facts: JsonObject
