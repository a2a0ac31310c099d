"""The garbage collector: held off while many objects are built that all stay, and rarer in a program of ours.

Python's collector walks everything again each time a quarter more objects exist. While a large flow is read
that finds nothing to free and makes the time grow faster than the flow: a third of it at 100,000 tasks.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

GARBAGE = 10_000
"""New objects before the collector looks, in a process that is ours: a few megabytes. Python's own 700 come
together in twenty steps of a run."""


def rarer_collector() -> None:
    """Leave what exists by now out of collections, and collect less often: for programs, not libraries."""
    if not gc.get_freeze_count():
        gc.freeze()
    gc.set_threshold(GARBAGE, 10, 10)


@contextmanager
def paused_collector() -> Iterator[None]:
    """Keep the collector off inside the block; it stays off afterwards only if it was off before."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
