"""What starting, reporting and finishing an attempt means for the columns, whatever the dialect."""

from typing import Any

from weft.errors import InternalError, WeftError
from weft.store.columns import json_text
from weft.store.requests import Start
from weft.tasks.flow import TaskNotFound
from weft.tasks.record import JsonObject, Task
from weft.tasks.states import Completed, Outcome, Started, error_text, transition


def within_bounds(progress: float) -> float:
    """The nearest progress that the record allows; in this order of arguments, NaN becomes 0."""
    return min(1.0, max(0.0, progress))


def ending(outcome: Outcome) -> tuple[tuple[Any, ...], JsonObject]:
    """The status, result, error and progress (None: as it is) after an outcome, and its event's own facts."""
    if isinstance(outcome, Completed):
        return ("completed", json_text(outcome.result), None, 1.0), {}
    error = error_text(outcome.error)
    return (outcome.verb, None, error, None), {"error": error}


def refusal(request: Start, task: Task | None) -> WeftError:
    """Why a task could not be started, from what the store holds of it."""
    if task is None:
        return TaskNotFound(task_id=request.task_id)
    try:
        transition(task, Started(request.now))
    except WeftError as error:
        return error
    return InternalError(f"task {task.id} may be started, but was not")
