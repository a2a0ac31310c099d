"""`params.timeout_seconds`: how long one attempt may take."""

import math

from weft.tasks.problems import Problem, joined, shown
from weft.tasks.record import Task


def timeout_seconds(task: Task) -> float | None:
    """Seconds an attempt may take; None: as long as it likes."""
    limit = (task.params or {}).get("timeout_seconds")
    return None if limit is None else float(limit)


def timeout_problems(task: Task, *, path: str = "") -> list[Problem]:
    """What is wrong with `params.timeout_seconds`."""
    limit = (task.params or {}).get("timeout_seconds")
    is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
    if limit is None or (is_number and limit > 0 and math.isfinite(limit)):
        return []
    where = joined(joined(path, "params"), "timeout_seconds")
    return [
        Problem("params", "timeout_seconds must be a number above 0", "a number above 0", shown(limit), where)
    ]
