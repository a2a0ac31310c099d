"""Calls of a store that is away for a while: tried again until it is back, up to a limit."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from weft.errors import TransientError

log = logging.getLogger(__name__)

AWAY_SECONDS = 60.0
"""How long a store may be away before a call fails: a server restarts in seconds, fails over in a minute."""

FIRST_PAUSE_SECONDS = 0.02
LONGEST_PAUSE_SECONDS = 1.0
"""A lost connection is replaced at once; a server that starts is asked every second."""

TELL_SECONDS = 5.0
"""How often the log says that the store is still away."""

LEAVE_SECONDS = 0.5
"""How long a process that is about to exit waits for the store."""

T = TypeVar("T")


class Tolerance:
    """Retries calls that failed because the store is away. Only for calls that wrote nothing."""

    def __init__(self, seconds: float = AWAY_SECONDS) -> None:
        self._seconds = seconds
        self._is_leaving = asyncio.Event()
        self._limits: set[asyncio.Timeout] = set()
        self._told_at = -math.inf

    @property
    def is_leaving(self) -> bool:
        """Whether the process is about to exit and waits for nothing more."""
        return self._is_leaving.is_set()

    def leave(self) -> None:
        """Retry no more, wake who waits to retry, and end soon what waits for the store."""
        self._is_leaving.set()
        deadline = asyncio.get_running_loop().time() + LEAVE_SECONDS
        for limit in self._limits:
            when = limit.when()
            limit.reschedule(deadline if when is None else min(when, deadline))

    @asynccontextmanager
    async def limit(self, seconds: float | None = None) -> AsyncIterator[None]:
        """Raise TimeoutError when the block takes longer than this, or than a leaving process waits."""
        if self.is_leaving:
            seconds = LEAVE_SECONDS if seconds is None else min(seconds, LEAVE_SECONDS)
        async with asyncio.timeout(seconds) as limit:
            self._limits.add(limit)
            try:
                yield
            finally:
                self._limits.discard(limit)

    async def retry(self, call: Callable[[], Awaitable[T]], *, seconds: float | None = None) -> T:
        """Return what the call returns, as soon as the store is back; raise its error after the limit."""
        limit = self._seconds if seconds is None else seconds
        loop = asyncio.get_running_loop()
        deadline: float | None = None
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                return await call()
            except TransientError as error:
                deadline = loop.time() + limit if deadline is None else deadline
                if self.is_leaving or loop.time() + pause > deadline:
                    raise
                self._tell(error)
            await self.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def _tell(self, error: TransientError) -> None:
        """Log that the store is away: at once, then now and then, however many calls wait for it."""
        now = asyncio.get_running_loop().time()
        if now - self._told_at >= TELL_SECONDS:
            self._told_at = now
            message = "the store is away, retrying: %s"
            log.warning(message, error.message, extra={"action": "store_transient_error"})

    async def sleep(self, seconds: float) -> None:
        """Sleep, but not longer than the process waits."""
        try:
            async with asyncio.timeout(seconds):
                await self._is_leaving.wait()
        except TimeoutError:
            pass
