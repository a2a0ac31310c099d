"""Executors that other packages bring, by entry points of the group `weft.executors`.

The entry point's name is the executor's id. It points to an executor (an object with `id` and
`execute`), to a function or class that `@executor` takes, or to one that it has already decorated.
"""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from types import FrameType
from typing import Any

from weft.errors import WeftError
from weft.executors.adapted import adapt
from weft.executors.protocol import Executor
from weft.executors.registry import MADE_OF, ExecutorRegistry

GROUP = "weft.executors"

log = logging.getLogger(__name__)


def register_plugins(registry: ExecutorRegistry) -> None:
    """Add every plug-in that can be loaded; note the others with their errors."""
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        source = f"plug-in {point.value}"
        try:
            with _interrupts_noted() as interrupts:
                registry.register(_load(point), source=source)
        except BaseException as error:
            # A plug-in is a stranger's code: whatever it raises must not keep weft from starting, SystemExit
            # neither. Only Ctrl-C is not its fault.
            if isinstance(error, KeyboardInterrupt) and interrupts:
                raise
            reason = error.message if isinstance(error, WeftError) else f"{type(error).__name__}: {error}"
            log.warning(
                "executor plug-in skipped: %s: %s",
                point.value,
                reason,
                extra={"action": "plugin_skipped", "executor_id": point.name},
            )
            registry.add_failure(point.name, source=source, error=reason)


@contextmanager
def _interrupts_noted() -> Iterator[list[int]]:
    """The SIGINTs that come inside the block; without one, a KeyboardInterrupt is the doing of the code."""
    noted: list[int] = []
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield noted  # nothing is raised for a signal here
        return

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, handler)


def _load(point: EntryPoint) -> Executor:
    executor = _executor(point.name, point.load())
    if executor.id != point.name:
        raise ValueError(f"the entry point is called '{point.name}', its executor '{executor.id}'")
    return executor


def _executor(executor_id: str, loaded: Any) -> Executor:
    made: Executor | None = getattr(loaded, MADE_OF, None)
    if made is not None:
        return made
    if not isinstance(loaded, type) and hasattr(loaded, "id") and hasattr(loaded, "execute"):
        found: Executor = loaded
        return found
    return adapt(executor_id, loaded)
