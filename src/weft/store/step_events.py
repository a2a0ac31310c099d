"""What the log says of steps."""

from collections.abc import Iterator

from weft.store.steps import StepChange
from weft.tasks.events import EventType, NewEvent
from weft.tasks.record import JsonObject, Status

_ENDED = {
    Status.COMPLETED: EventType.TASK_COMPLETED,
    Status.FAILED: EventType.TASK_FAILED,
    Status.CANCELLED: EventType.TASK_CANCELLED,
}


def step_events(change: StepChange) -> Iterator[NewEvent]:
    """The events of a step as it is now: that it began, once in an attempt at the run; and how it ended."""
    if change.is_mark:
        return
    task = change.task
    tree, began, ended = task.task_tree_id or task.id, task.started_at, task.completed_at
    if began is not None and not change.is_continued:
        yield NewEvent(EventType.TASK_STARTED, task.id, tree, task.user_id, began, {"step": change.key})
    kind = _ENDED.get(task.status)
    if kind is not None and ended is not None:
        facts: JsonObject = {} if task.error is None else {"error": task.error}
        if task.original_task_id is not None:
            facts["reused"] = task.original_task_id
        yield NewEvent(kind, task.id, tree, task.user_id, ended, facts)
