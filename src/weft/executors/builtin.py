"""The built-in executors, those registered by `@executor`, and plug-ins from entry points.

The name of an entry point is the id of its executor. It refers to an executor (an object with `id` and
`execute`), or to a function or class that `@executor` accepts or has already decorated.
"""

import logging
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from types import FrameType
from typing import Any

from weft.config.sections import ExecutorSettings
from weft.errors import WeftError
from weft.executors.adapters import adapt
from weft.executors.command import Command
from weft.executors.http import Http
from weft.executors.protocol import Executor
from weft.executors.python import PythonFunction
from weft.executors.registry import BUILT_IN, EXECUTOR_ATTRIBUTE, ExecutorRegistry, decorated
from weft.executors.simple import AggregateResults, Noop, Sleep, SystemInfo
from weft.executors.workflow_step import WorkflowStep

HERE = (".",)
"""The roots of a process without a project: its working folder."""


def built_in_registry(
    settings: ExecutorSettings | None = None,
    *,
    base: ExecutorRegistry | None = None,
    roots: Sequence[str] = HERE,
) -> ExecutorRegistry:
    """Return a registry of the built-in executors that also includes the executors of `base`.

    `command` accepts only folders inside `roots`.
    """
    settings = settings or ExecutorSettings()
    registry = ExecutorRegistry(base)
    executors: tuple[Executor, ...] = (
        AggregateResults(),
        Command(settings.command, roots),
        Http(settings.http),
        Noop(),
        PythonFunction(settings.python),
        Sleep(),
        SystemInfo(),
        WorkflowStep(registry),
    )
    for one in executors:
        registry.register(one, source=BUILT_IN)
    return registry


def default_registry(
    settings: ExecutorSettings | None = None,
    *,
    more: Iterable[Executor] = (),
    roots: Sequence[str] = HERE,
) -> ExecutorRegistry:
    """Return a registry of the built-in executors, those registered by `@executor`, and the plug-ins.

    `more` are built-in executors of packages that this one may not import (aider).
    """
    registry = built_in_registry(settings, base=decorated, roots=roots)
    for one in more:
        registry.register(one, source=BUILT_IN)
    register_plugins(registry)
    return registry


GROUP = "weft.executors"

log = logging.getLogger(__name__)


def register_plugins(registry: ExecutorRegistry) -> None:
    """Register the plug-ins; for those that cannot be loaded, record the error."""
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        source = f"plug-in {point.value}"
        try:
            with _record_interrupts() as interrupts:
                registry.register(_load(point), source=source)
        except BaseException as error:
            # A plug-in is third-party code: no exception that it raises, not even SystemExit, may prevent
            # weft from starting. Only a real Ctrl-C is raised again.
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
def _record_interrupts() -> Iterator[list[int]]:
    """Yield a list of the SIGINTs received in the block, to tell Ctrl-C from a raised KeyboardInterrupt."""
    recorded: list[int] = []
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield recorded  # no Python handler, or not the main thread, which runs handlers
        return

    def record(number: int, frame: FrameType | None) -> None:
        recorded.append(number)
        handler(number, frame)

    signal.signal(signal.SIGINT, record)
    try:
        yield recorded
    finally:
        signal.signal(signal.SIGINT, handler)


def _load(point: EntryPoint) -> Executor:
    loaded = _as_executor(point.name, point.load())
    if loaded.id != point.name:
        raise ValueError(f"the entry point '{point.name}' must have the id of its executor, '{loaded.id}'")
    return loaded


def _as_executor(executor_id: str, loaded: Any) -> Executor:
    registered: Executor | None = getattr(loaded, EXECUTOR_ATTRIBUTE, None)
    if registered is not None:
        return registered
    if not isinstance(loaded, type) and hasattr(loaded, "id") and hasattr(loaded, "execute"):
        found: Executor = loaded
        return found
    return adapt(executor_id, loaded)
