"""Signals while tasks run: the first stops gracefully, the second exits at once."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from weft.cli.invoke import echo_status
from weft.errors import EXIT_INTERRUPTED

Stop = Callable[[signal.Signals], Awaitable[None]]

SIGNALS = (signal.SIGINT, signal.SIGTERM)

STORE_SECONDS = 8.0
"""How long to wait for the store after a signal while no task runs: other processes may lock it."""

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
