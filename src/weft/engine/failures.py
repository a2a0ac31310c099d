"""What goes on failing: tried ever more rarely, and told of now and then."""

from collections.abc import Container
from datetime import datetime, timedelta

from msgspec import Struct

from weft.ids import TaskId

FIRST_WAIT = timedelta(seconds=1)
LONGEST_WAIT = timedelta(minutes=1)
"""How long a task that failed is left alone: twice as long each time."""

TELL_EVERY = timedelta(minutes=1)
"""How often the log speaks of one and the same."""


class _Failure(Struct, frozen=True):
    failed_at: datetime
    wait: timedelta
    told_at: datetime


class Failures:
    """The tasks that failed the last time they were tried.

    Times are compared by their distance in either direction: a clock that was put back by a year must not
    make anything wait for a year.
    """

    def __init__(self) -> None:
        self._failures: dict[TaskId, _Failure] = {}

    def is_waiting(self, task_id: TaskId, now: datetime) -> bool:
        """Whether it failed so lately that it is to be left alone."""
        failure = self._failures.get(task_id)
        return failure is not None and abs(now - failure.failed_at) < failure.wait

    def add(self, task_id: TaskId, now: datetime) -> bool:
        """Note that it failed, and return whether that is to be told."""
        before = self._failures.get(task_id)
        if before is None:
            self._failures[task_id] = _Failure(now, FIRST_WAIT, now)
            return True
        is_told = abs(now - before.told_at) >= TELL_EVERY
        wait = min(before.wait * 2, LONGEST_WAIT)
        self._failures[task_id] = _Failure(now, wait, now if is_told else before.told_at)
        return is_told

    def forget(self, task_id: TaskId) -> None:
        """Note that it succeeded."""
        self._failures.pop(task_id, None)

    def keep_only(self, task_ids: Container[TaskId]) -> None:
        """Forget all others: nobody tries them any more."""
        self._failures = {key: value for key, value in self._failures.items() if key in task_ids}
