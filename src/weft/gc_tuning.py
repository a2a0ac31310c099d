"""Tuning of the garbage collector: paused during bulk construction, less frequent in weft's own processes.

Python's collector walks all objects again each time their number grows by a quarter. While a large flow is
read, that frees nothing and costs a third of the time at 100,000 tasks.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

GC_THRESHOLD = 10_000
"""Number of new objects that starts a collection in weft's own processes: a few megabytes. Python's default
of 700 is reached within twenty steps of a run."""


def tune_collector() -> None:
    """Exclude existing objects from collections and collect less often; for processes that weft owns."""
    if not gc.get_freeze_count():
        gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 10, 10)


@contextmanager
def pause_collector() -> Iterator[None]:
    """Disable the collector inside the block, then restore its earlier state."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
