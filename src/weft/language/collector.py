"""The garbage collector, out of the way while a program is read or checked."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Iterator[None]:
    """Let no collection begin meanwhile.

    A program of a megabyte becomes a million objects that all live on; looking at them again and again for
    cycles takes longer than making them. Whoever found the collector on turns it on again, so threads that
    do this at the same time leave it on.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
