"""Retry policy and timeout of a task: `params.retry` and `params.timeout_seconds`."""

import math
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from weft.limits import Backoff
from weft.tasks.parsing.problems import Problem, nearest, problem_at
from weft.tasks.record import Task

_MAX_DELAY_SECONDS = 7 * 24 * 3600.0


class RetryPolicy(
    Backoff, frozen=True, forbid_unknown_fields=True, rename={"factor": "backoff", "cap": "max_delay"}
):
    """How often a task is tried, and how long to wait between attempts, as a user may set it."""

    attempts: Annotated[int, Meta(ge=1, le=1000)] = 1
    """Maximum number of attempts, not counting lost ones; 1: no retry."""
    delay: Annotated[float, Meta(ge=0.0, le=_MAX_DELAY_SECONDS)] = 1.0
    """Seconds before the second attempt."""
    factor: Annotated[float, Meta(ge=1.0, le=100.0)] = 2.0
    """Factor by which the delay grows with each further attempt."""
    jitter: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.1
    """Fraction by which delays vary at random, up or down: failed tasks are not retried all at once."""
    cap: Annotated[float, Meta(ge=0.0, le=_MAX_DELAY_SECONDS)] = 3600.0
    """Maximum delay in seconds, before jitter."""


NO_RETRY = RetryPolicy()


def retry_policy(task: Task) -> RetryPolicy:
    """Return the policy in `params.retry`. Raise msgspec.ValidationError if it is malformed."""
    given = _given_policy(task)
    return NO_RETRY if given is None else msgspec.convert(given, RetryPolicy)


def retry_problems(task: Task, *, path: str = "") -> list[Problem]:
    """Return the problems of `params.retry`."""
    try:
        retry_policy(task)
    except msgspec.ValidationError as error:
        given = _given_policy(task)
        hint = ""
        if isinstance(given, dict):
            known = RetryPolicy.__struct_encode_fields__
            hint = "".join(nearest(str(key), known) for key in given if key not in known)
        reason = f"{str(error).replace('`$', '`retry')}{hint}"
        return [problem_at(path, "params.retry", reason, "a retry policy", given, field="params")]
    return []


def _given_policy(task: Task) -> Any:
    return (task.params or {}).get("retry")


def timeout_seconds(task: Task) -> float | None:
    """Return the time limit of an attempt in seconds; None: no limit."""
    limit = (task.params or {}).get("timeout_seconds")
    return None if limit is None else float(limit)


def timeout_problems(task: Task, *, path: str = "") -> list[Problem]:
    """Return the problems of `params.timeout_seconds`."""
    limit = (task.params or {}).get("timeout_seconds")
    is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
    if limit is None or (is_number and limit > 0 and math.isfinite(limit)):
        return []
    reason = "timeout_seconds must be a number above 0"
    return [problem_at(path, "params.timeout_seconds", reason, "a number above 0", limit, field="params")]
