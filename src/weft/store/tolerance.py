"""Retries of calls to a store that is temporarily unavailable, up to a time limit."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from weft.errors import TransientError
from weft.limits import Backoff

log = logging.getLogger(__name__)

AWAY_SECONDS = 60.0
"""How long a store may be unavailable before a call fails. A restart takes seconds, a failover a minute."""

STORE_BACKOFF = Backoff(delay=0.02, cap=1.0)
"""Before a call to an unavailable store is retried: a server that is starting is tried every second."""

LOG_INTERVAL_SECONDS = 5.0
"""How often to log that the store is still unavailable."""

EXIT_SECONDS = 0.5
"""How long a process that is about to exit waits for the store."""

T = TypeVar("T")


class Tolerance:
    """Retries calls that failed because the store is unavailable. Only for calls that write nothing then."""

    def __init__(self, seconds: float = AWAY_SECONDS) -> None:
        self._seconds = seconds
        self._is_exiting = asyncio.Event()
        self._timeouts: set[asyncio.Timeout] = set()
        self._logged_at = -math.inf

    @property
    def is_exiting(self) -> bool:
        """Return whether the process is about to exit, so that nothing waits for the store any longer."""
        return self._is_exiting.is_set()

    def stop_waiting(self) -> None:
        """Stop all retries, wake callers that wait to retry, and time out running calls soon."""
        self._is_exiting.set()
        deadline = asyncio.get_running_loop().time() + EXIT_SECONDS
        for limit in self._timeouts:
            when = limit.when()
            limit.reschedule(deadline if when is None else min(when, deadline))

    @asynccontextmanager
    async def limit(self, seconds: float | None = None) -> AsyncIterator[None]:
        """Raise TimeoutError after `seconds`; after `stop_waiting`, no later than EXIT_SECONDS."""
        if self.is_exiting:
            seconds = EXIT_SECONDS if seconds is None else min(seconds, EXIT_SECONDS)
        async with asyncio.timeout(seconds) as limit:
            self._timeouts.add(limit)
            try:
                yield
            finally:
                self._timeouts.discard(limit)

    async def retry(self, call: Callable[[], Awaitable[T]], *, seconds: float | None = None) -> T:
        """Retry the call while the store is unavailable. Return its result, or raise its last error."""
        limit = self._seconds if seconds is None else seconds
        loop = asyncio.get_running_loop()
        deadline: float | None = None
        failures = 0
        while True:
            try:
                return await call()
            except TransientError as error:
                failures += 1
                pause = STORE_BACKOFF.delay_after(failures)
                deadline = loop.time() + limit if deadline is None else deadline
                if self.is_exiting or loop.time() + pause > deadline:
                    raise
                self._log_unavailable(error)
            await self.sleep(pause)

    def _log_unavailable(self, error: TransientError) -> None:
        """Log that the store is unavailable: at once, then at intervals, however many calls wait for it."""
        now = asyncio.get_running_loop().time()
        if now - self._logged_at >= LOG_INTERVAL_SECONDS:
            self._logged_at = now
            message = "the store is unavailable, retrying: %s"
            log.warning(message, error.message, extra={"action": "store_transient_error"})

    async def sleep(self, seconds: float) -> None:
        """Sleep, but return early when the process is about to exit."""
        try:
            async with asyncio.timeout(seconds):
                await self._is_exiting.wait()
        except TimeoutError:
            pass
