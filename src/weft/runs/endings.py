"""Records of steps as they are when the steps have ended."""

from datetime import datetime
from typing import Any

from weft.evaluator.errors import BudgetExceeded, TaskFailed
from weft.runs.records import failure_json
from weft.secrets.registry import is_any, redact_json
from weft.tasks.record import JsonObject, Status, Task, evolve
from weft.tasks.states import error_text
from weft.tasks.steps import mark_of

CALLED_OFF = "called off: a time limit was reached, or another step failed"


def completed(task: Task, result: JsonObject, now: datetime) -> Task:
    """The record with a result, which holds no secrets."""
    return evolve(
        task,
        status=Status.COMPLETED,
        result=redact_json(result) if is_any() else result,
        progress=1.0,
        completed_at=now,
        updated_at=now,
        error=None,
    )


def failed(task: Task, error: TaskFailed, now: datetime) -> Task:
    """The record with a failure; one that a budget refused has none to tell: it is counted anew."""
    facts = {} if isinstance(error, BudgetExceeded) else {"failure": failure_json(error)}
    params = with_mark(task, **facts).params
    return evolve(
        task,
        status=Status.FAILED,
        error=error_text(error.error.message),
        params=redact_json(params) if is_any() else params,
        completed_at=now,
        updated_at=now,
    )


def called_off(task: Task, now: datetime) -> Task:
    """The record of a step that the program itself has ended."""
    params = with_mark(task, called_off=True).params
    return evolve(
        task, status=Status.CANCELLED, error=CALLED_OFF, params=params, completed_at=now, updated_at=now
    )


def with_mark(task: Task, **facts: Any) -> Task:
    """The record with further facts on the step that it is."""
    return evolve(task, params={**(task.params or {}), "step": {**mark_of(task), **facts}})
