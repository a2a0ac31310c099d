"""Signals while tasks run: the first asks to stop, the second ends the process at once."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import click

from weft.errors import EXIT_INTERRUPTED

Stop = Callable[[signal.Signals], Awaitable[None]]


class Stopping:
    """Whether the process was asked to stop, and by what."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @contextmanager
    def on_signals(self, stop: Stop) -> Iterator[None]:
        """Call `stop` on the first SIGINT or SIGTERM inside the block; a second one exits."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for one in signals:
            loop.add_signal_handler(one, self._receive, one, stop)
        try:
            yield
        finally:
            for one in signals:
                loop.remove_signal_handler(one)

    def _receive(self, received: signal.Signals, stop: Stop) -> None:
        if self.signal is not None:
            # Leases run out by themselves; nothing is lost by leaving now.
            os._exit(EXIT_INTERRUPTED)
        self.signal = received
        click.echo("stopping; once more to leave at once", err=True)
        task = asyncio.ensure_future(self._stop(stop, received))
        self._tasks.add(task)  # the loop itself holds tasks only weakly

    async def _stop(self, stop: Stop, received: signal.Signals) -> None:
        await stop(received)
