"""Simulated processes: they can be frozen, thawed and killed, and each has a machine clock of its own.

A process is a value of a context variable. Every callback of the event loop has the context of the code that
asked for it, so the loop knows which process it belongs to, and keeps back those of one that is frozen.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine
from contextvars import Context, ContextVar, copy_context
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, TypeVar

from tests.virtual_time import JumpingSelector, VirtualLoop

T = TypeVar("T")

START = datetime(2025, 1, 15, 12, tzinfo=UTC)

LONGEST_SECONDS = 24 * 3600.0
"""Of simulated time: more means that something waits in a loop that never ends."""

_PROCESS: ContextVar["Process | None"] = ContextVar("process", default=None)


class _Ready(deque[asyncio.Handle]):
    """The callbacks that are to be run next, without those of processes that do not advance."""

    def append(self, handle: asyncio.Handle, /) -> None:
        process: Process | None = handle._context.get(_PROCESS)  # type: ignore[attr-defined]
        if process is None or not process.is_stopped:
            super().append(handle)
        else:
            process.parked.append(handle)


class _Numbered:
    """A hash that does not depend on the address: sets of tasks have the same order in every run."""

    _number: int

    def __hash__(self) -> int:
        return self._number


class _Task(_Numbered, asyncio.Task[Any]):
    pass


class _Future(_Numbered, asyncio.Future[Any]):
    pass


class _NoFiles(JumpingSelector):
    """Looks at no file: there are no other threads and no other processes that anything could come from."""

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "everything waits, and nothing will ever happen"
        if timeout > 0:
            self._loop.jump(timeout)
        return []


class SimulatedLoop(VirtualLoop):
    """An event loop in virtual time, that runs everything in the same order every time."""

    def __init__(self) -> None:
        super().__init__(_NoFiles)
        self._ready: deque[asyncio.Handle] = _Ready()
        numbers = count()

        def new_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> _Task:
            task = _Task.__new__(_Task)
            task._number = next(numbers)
            task.__init__(coroutine, loop=loop, **options)  # type: ignore[misc]
            return task

        self._numbers = numbers
        self.set_task_factory(new_task)

    def create_future(self) -> asyncio.Future[Any]:
        future = _Future.__new__(_Future)
        future._number = next(self._numbers)
        future.__init__(loop=self)  # type: ignore[misc]
        return future

    def jump(self, seconds: float) -> None:
        super().jump(seconds)
        assert self.time() < LONGEST_SECONDS, "the simulation does not end"

    def park(self, process: "Process") -> None:
        """Keep back what the process was about to do."""
        ready, self._ready = self._ready, _Ready()
        for handle in ready:
            self._ready.append(handle)

    def resume(self, handles: list[asyncio.Handle]) -> None:
        """Run callbacks that were kept back, in their order."""
        for handle in handles:
            self._ready.append(handle)


class Process:
    """One simulated process on a machine of its own."""

    def __init__(self, name: str, loop: SimulatedLoop) -> None:
        self.name = name
        self.is_stopped = False
        self.is_dead = False
        self.parked: list[asyncio.Handle] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.clock = MachineClock(loop)
        self._loop = loop
        self._context: Context = copy_context()
        self._context.run(_PROCESS.set, self)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine in the process."""
        task = self._loop.create_task(work, context=self._context.copy())
        self.tasks.append(task)
        return task

    def freeze(self) -> None:
        """Do not advance until `thaw`, as after SIGSTOP."""
        self.is_stopped = True
        self._loop.park(self)

    def thaw(self) -> None:
        """Go on where it was; timers that are due fire at once."""
        self.is_stopped = False
        parked, self.parked = self.parked, []
        self._loop.resume(parked)

    def kill(self) -> None:
        """Never advance again, as after SIGKILL."""
        self.is_dead = True
        self.freeze()

    async def bury(self) -> None:
        """Clear away what is left of the process when the simulation is over."""
        self.is_dead = True
        self.thaw()
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks)


class MachineClock:
    """The clock of one machine: it runs as fast as all, and may be wrong."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.offset = timedelta()

    def now(self) -> datetime:
        return START + timedelta(seconds=self._loop.time()) + self.offset


def current_process() -> Process | None:
    """Return the process whose code runs."""
    return _PROCESS.get()
