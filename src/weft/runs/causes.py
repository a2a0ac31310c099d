"""Which step a failure came from: a composite tells its part's failure in its own words."""

import msgspec

from weft.evaluator.errors import BudgetExceeded, TaskFailed
from weft.evaluator.results import TaskFailure


def with_key(error: TaskFailed, key: str) -> TaskFailed:
    """The failure with the key of the step that failed: a composite tells its part's failure in its own."""
    if not isinstance(error.error, TaskFailure) or isinstance(error, BudgetExceeded):
        return error
    details = {"step": key, **(error.error.details or {})}
    failure = msgspec.structs.replace(error.error, details=details)
    return type(error)(failure, span=error.span, code=error.problem.code)


def cause_of(failure: TaskFailed) -> tuple[str | None, str]:
    """The key of the step that failed first, if it is told, and what it said."""
    error = msgspec.to_builtins(failure.error)
    while True:
        details = error.get("details") or {}
        inner = details.get("subtaskError")
        if not isinstance(inner, dict) or "message" not in inner:
            return details.get("step"), str(error.get("message"))
        error = inner
