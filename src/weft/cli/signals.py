"""Signals while tasks run: the first asks to stop, the second ends the process at once."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from weft.cli.invoke import say
from weft.errors import EXIT_INTERRUPTED

Stop = Callable[[signal.Signals], Awaitable[None]]

SIGNALS = (signal.SIGINT, signal.SIGTERM)

STORE_SECONDS = 8.0
"""How long after a signal the store is waited for while nothing runs: others may hold it for a while."""

LAST_SECONDS = 1.0
"""How long it is waited for at least once all that ran has ended, to say how that went."""


class ShutdownSignals:
    """Whether the process was asked to stop, and by what."""

    def __init__(self, leave: Callable[[], None]) -> None:
        """`leave` ends soon what waits for the store, now and later."""
        self.signal: signal.Signals | None = None
        self._received_at = 0.0
        self._leave = leave
        self._is_storing = False
        self._asked = asyncio.Event()

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Take note of the first SIGINT or SIGTERM inside the block; a second one exits."""
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
        """After a signal, do not wait long for the store inside the block, in which nothing runs yet."""
        self._is_storing = True
        try:
            yield
        finally:
            self._is_storing = False

    async def run_until_stopped(self, work: Coroutine[Any, Any, None], stop: Stop) -> None:
        """Do the work; on the first signal, also one that has come before, call `stop`, which lets it end."""
        working = asyncio.create_task(work)
        asked = asyncio.create_task(self._asked.wait())
        try:
            await asyncio.wait({working, asked}, return_when=asyncio.FIRST_COMPLETED)
            if self.signal is not None:
                await stop(self.signal)
            await working
        finally:
            asked.cancel()
            if self.signal is not None:
                self._leave_soon()

    def _receive(self, received: signal.Signals) -> None:
        if self.signal is not None:
            # Leases run out by themselves; nothing is lost by leaving now.
            os._exit(EXIT_INTERRUPTED)
        self.signal = received
        self._received_at = asyncio.get_running_loop().time()
        self._asked.set()
        if self._is_storing:
            self._leave_soon()
        say("stopping; once more to leave at once")

    def _leave_soon(self) -> None:
        """Wait no longer for the store than a process may that is asked to stop; it exits in any case."""
        loop = asyncio.get_running_loop()
        loop.call_at(max(self._received_at + STORE_SECONDS, loop.time() + LAST_SECONDS), self._leave)


def leave_with(code: int) -> None:
    """From now on a signal ends the process with this code: all is done, and how it went is known."""
    for one in SIGNALS:
        signal.signal(one, lambda *_: os._exit(code))
