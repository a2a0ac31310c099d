"""How much time a request has: who asks says it, and who would wait longer gives up at once instead."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_DEADLINE: ContextVar[float | None] = ContextVar("weft_model_deadline", default=None)


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Everything that is asked in the block has that much time at most; None: no limit of its own.

    Nothing is cancelled here: the limit only tells a request whether a wait is worth it.
    """
    around = _DEADLINE.get()
    ends = [at for at in (around, None if seconds is None else time.monotonic() + seconds) if at is not None]
    token = _DEADLINE.set(min(ends, default=None))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def seconds_left() -> float | None:
    """How much time there is; None: as much as it takes."""
    deadline = _DEADLINE.get()
    return None if deadline is None else max(0.0, deadline - time.monotonic())
