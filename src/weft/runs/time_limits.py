"""Time limits of a program over all evaluations of it: the time in which a person was waited for counts.

It is known from the records: when a question was asked, and when it was answered, or what the time is now.
Time in which nobody was waited for and nothing was evaluated counts in no limit.
"""

import asyncio
from datetime import datetime, timedelta

from weft.evaluator.waiting import scope_around
from weft.tasks.questions import due_at
from weft.tasks.record import Task

MOST_SECONDS = 10**9
"""A limit that is further away is none: no date can say when it is reached."""


def due_time(now: datetime) -> str | None:
    """Until when what is asked now can be answered, by the time limits around it; None: for ever."""
    scope = scope_around()
    due = None if scope is None else scope.due()
    if due is None:
        return None
    seconds = due - asyncio.get_running_loop().time()
    return None if seconds > MOST_SECONDS else (now + timedelta(seconds=max(0.0, seconds))).isoformat()


def count_time_of(task: Task, *, now: datetime | None = None) -> None:
    """Count the time of a step that earlier evaluations have left; `now`: it is open still."""
    scope = scope_around()
    ended = task.completed_at if now is None else now
    if scope is None or not scope.has_waits or task.created_at is None or ended is None:
        return
    until = None if now is None else due_at(task)
    left = None if until is None or now is None else (until - now).total_seconds()
    due = None if left is None else asyncio.get_running_loop().time() + left
    scope.count_wait(task.created_at.timestamp(), ended.timestamp(), due)
