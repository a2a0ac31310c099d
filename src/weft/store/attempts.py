"""What starting, reporting and finishing an attempt means for the columns, whatever the dialect."""

from datetime import datetime
from typing import Any

from weft.errors import InternalError, WeftError
from weft.store.columns import json_text
from weft.store.protocol import Claim, Ending, Rest
from weft.store.requests import Start
from weft.tasks.events import EventType
from weft.tasks.flow import TaskNotFound
from weft.tasks.record import Dependency, JsonObject, Task
from weft.tasks.states import Completed, Started, error_text, require_object, transition

CLOCK_PUT_BACK = "the clock was put back; the delay starts again"


def claim_facts(claim: Claim) -> JsonObject:
    """The facts of the events that tell who has an attempt, or had it."""
    return {"attempt": claim.attempt, "worker": claim.worker}


def ending(
    request: Ending, retry_at: datetime | None
) -> tuple[tuple[Any, ...], list[tuple[EventType, JsonObject]]]:
    """The columns after an ending (status, result, error, progress; None: as it is), and its events' facts.

    Before a retry they are those of the attempt, not of the task: that is pending again.
    """
    outcome = request.outcome
    facts: JsonObject = {"attempt": request.claim.attempt}
    if isinstance(outcome, Completed):
        require_object(outcome.result)
        columns: tuple[Any, ...] = ("completed", json_text(outcome.result), None, 1.0)
    else:
        facts["error"] = error_text(outcome.error)
        columns = (outcome.verb, None, facts["error"], None)
    events = [(outcome.event_type, facts)]
    if retry_at is not None:
        events.append((EventType.TASK_RETRIED, {"at": retry_at.isoformat()}))
    return columns, events


def dependencies_at_rest(request: Rest, *, has_ended: bool) -> tuple[Dependency, ...]:
    """What a task at rest depends on; nothing more than before when something it rests for has ended."""
    if has_ended:
        return request.dependencies
    return (*request.dependencies, *(Dependency(task_id, required=False) for task_id in request.until))


def refusal(request: Start, task: Task | None) -> WeftError:
    """Why a task could not be started, from what the store holds of it."""
    if task is None:
        return TaskNotFound(task_id=request.task_id)
    try:
        transition(task, Started(request.now))
    except WeftError as error:
        return error
    return InternalError(f"task {task.id} may be started, but was not")
