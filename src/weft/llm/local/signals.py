"""Keeps the process's signal handlers through native code that sets its own."""

import ctypes
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ACTION_BYTES = 256
"""More than a `struct sigaction` takes anywhere."""


@contextmanager
def kept_signals() -> Iterator[None]:
    """Put SIGINT and SIGTERM back as they were.

    The runtime installs handlers when it loads a model, in whatever thread that is: Ctrl-C would then end the
    model, not the program. Python's own `signal` works in the main thread only, hence the C function.
    """
    sigaction = ctypes.CDLL(None, use_errno=True).sigaction
    kept = {number: ctypes.create_string_buffer(_ACTION_BYTES) for number in _SIGNALS}
    for number, action in kept.items():
        sigaction(int(number), None, action)
    try:
        yield
    finally:
        for number, action in kept.items():
            sigaction(int(number), action, None)
