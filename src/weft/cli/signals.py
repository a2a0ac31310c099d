"""Follow runs at the terminal. The first signal stops a run gracefully, the second exits at once."""

import asyncio
import os
import resource
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from weft.app.app import App
from weft.app.programs import RunObserver
from weft.cli.display.live import watching
from weft.cli.display.questions import TerminalLock
from weft.cli.invoke import echo_status
from weft.errors import EXIT_INTERRUPTED, TransientError
from weft.ids import TaskId

Stop = Callable[[signal.Signals], Awaitable[None]]

SIGNALS = (signal.SIGINT, signal.SIGTERM)

STORE_SECONDS = 8.0
"""How long to wait for the store after a signal while no task runs: other processes may lock it."""

INTERRUPT_GRACE_SECONDS = 2.0
"""How long running tasks may continue after Ctrl-C: a person waits at the terminal."""

MAX_FILES = 65_536
"""Limit of open files to set: enough for ten thousand processes that run at the same time."""

LAST_SECONDS = 1.0
"""Minimum time to wait for the store after all tasks have ended, so that their results are recorded."""


class ShutdownSignals:
    """Handles SIGINT and SIGTERM; `signal` is the first signal received, or None."""

    def __init__(self, leave: Callable[[], None]) -> None:
        """Initialize; `leave` makes current and later waits for the store fail soon."""
        self.signal: signal.Signals | None = None
        self._received_at = 0.0
        self._leave = leave
        self._is_storing = False
        self._stop_requested = asyncio.Event()

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Record the first SIGINT or SIGTERM inside the block; exit on the second."""
        loop = asyncio.get_running_loop()
        for one in SIGNALS:
            loop.add_signal_handler(one, self._receive, one)
        try:
            yield
        finally:
            for one in SIGNALS:
                loop.remove_signal_handler(one)

    @contextmanager
    def storing(self) -> Iterator[None]:
        """Mark a block that uses the store before any task runs: a signal shortens its waits."""
        self._is_storing = True
        try:
            yield
        finally:
            self._is_storing = False

    async def run_until_stopped(self, work: Coroutine[Any, Any, None], stop: Stop) -> None:
        """Run `work`; call `stop`, which makes `work` end, on a signal or if one was received before."""
        working = asyncio.create_task(work)
        stop_request = asyncio.create_task(self._stop_requested.wait())
        try:
            await asyncio.wait({working, stop_request}, return_when=asyncio.FIRST_COMPLETED)
            if self.signal is not None:
                await stop(self.signal)
            await working
        finally:
            stop_request.cancel()
            if self.signal is not None:
                self._leave_soon()

    def _receive(self, received: signal.Signals) -> None:
        if self.signal is not None:
            # The leases of this worker expire by themselves, and other workers take over its tasks.
            os._exit(EXIT_INTERRUPTED)
        self.signal = received
        self._received_at = asyncio.get_running_loop().time()
        self._stop_requested.set()
        if self._is_storing:
            self._leave_soon()
        echo_status("stopping; press Ctrl-C again to exit at once")

    def _leave_soon(self) -> None:
        """Limit the wait for the store: a stopped process must exit even when the store does not answer."""
        loop = asyncio.get_running_loop()
        loop.call_at(max(self._received_at + STORE_SECONDS, loop.time() + LAST_SECONDS), self._leave)


def exit_on_signal(code: int) -> None:
    """Exit with this code on the next signal: the work is done and its exit code is known."""
    for one in SIGNALS:
        signal.signal(one, lambda *_: os._exit(code))


class TerminalObserver(RunObserver):
    """Shows the progress of a run on standard error, and stops it on a signal."""

    def __init__(
        self, stopping: ShutdownSignals, announce: str | None, terminal: TerminalLock | None = None
    ) -> None:
        """Initialize; `announce` is the word before the id of the run, None to print no id."""
        self._stopping = stopping
        self._announce = announce
        self._terminal = terminal

    @property
    def is_stopped(self) -> bool:
        return self._stopping.signal is not None

    def storing(self) -> AbstractContextManager[None]:
        return self._stopping.storing()

    async def follow(self, app: App, root_id: TaskId, *, after: int, was: str) -> None:
        """Print the id of the run and its progress until it ends or is stopped."""
        if self._announce is not None:
            echo_status(f"{self._announce} {root_id}")
        if was == "ended":
            echo_status("this run has ended; nothing is performed again")
        elif was == "running":
            echo_status("another process performs this run; waiting for its end")
        async with watching(app, root_id, self._terminal, after=after):
            await self._stopping.run_until_stopped(app.wait(root_id), partial(_stop, app, root_id))


async def _stop(app: App, root_id: TaskId, received: signal.Signals) -> None:
    """Stop running a flow in this process; after Ctrl-C (SIGINT) also in all other processes."""
    if received is not signal.SIGINT:
        await app.stop()
        return
    try:
        # Ctrl-C comes from a person, who wants the flow to stop; after SIGTERM other processes may take over.
        async with asyncio.timeout(INTERRUPT_GRACE_SECONDS):
            await app.stop_flow(root_id)
    except (TimeoutError, TransientError):
        echo_status("the store is unavailable; other processes may continue to run the flow")
    finally:
        await app.stop(grace_seconds=INTERRUPT_GRACE_SECONDS)


def allow_many_files() -> None:
    """Raise the limit of open files to MAX_FILES if possible: every running process needs some.

    Not higher: some executables loop over all file descriptors up to the limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
