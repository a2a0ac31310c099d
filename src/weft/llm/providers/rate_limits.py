"""Rate limits of a provider, shared by all requests of this process."""

import asyncio
import random
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct

from weft.config.sections import ProviderSettings
from weft.llm.errors import ModelError
from weft.llm.providers.access import Access

WINDOW_SECONDS = 60.0


class WindowEntry(Struct, eq=False):
    """A number of requests or tokens, and when they were counted; an estimate until it is settled."""

    at: float
    amount: float


class SlidingWindow:
    """Limits the requests or tokens of the last sixty seconds.

    A token bucket would admit twice the limit in the first minute, and providers that count by the minute
    would refuse half of it.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._entries: deque[WindowEntry] = deque()
        self._sum = 0.0

    def wait_seconds(self, amount: float, now: float) -> float:
        """Return the seconds until `amount` fits; an amount above the limit needs an empty window."""
        self._drop_expired(now)
        excess = self._sum + min(amount, self._limit) - self._limit
        if excess <= 0:
            return 0.0
        for entry in self._entries:
            excess -= entry.amount
            if excess <= 0:
                return entry.at + WINDOW_SECONDS - now
        return 0.0

    def take(self, amount: float, now: float) -> WindowEntry:
        """Count an amount from now on, and return its entry for `settle`."""
        entry = WindowEntry(now, amount)
        self._entries.append(entry)
        self._sum += amount
        return entry

    def settle(self, entry: WindowEntry, amount: float) -> None:
        """Replace the estimate of an entry with the actual amount."""
        if self._entries and entry.at >= self._entries[0].at:
            self._sum += amount - entry.amount
        entry.amount = amount

    def _drop_expired(self, now: float) -> None:
        while self._entries and self._entries[0].at + WINDOW_SECONDS <= now:
            self._sum -= self._entries.popleft().amount
        if not self._entries:
            self._sum = 0.0  # removes rounding errors


class Timing(Struct, frozen=True, kw_only=True):
    """Clock, sleep and randomness of retries and limits, replaceable in tests."""

    now: Callable[[], float] = time.monotonic
    """Monotonic seconds."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    """A random number from 0 to 1 for jitter; it need not be secure."""


class QueueSlot:
    """A waiting request in the queue, which is woken in its own event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()

    def wake(self) -> bool:
        """Let the request check the limits again; False if its event loop is closed. Thread-safe."""
        try:
            self._loop.call_soon_threadsafe(self._woken.set)
        except RuntimeError:
            return False
        return True

    def reset(self) -> None:
        """Forget earlier calls of `wake`, so that `wait` waits for the next one."""
        self._woken.clear()

    async def wait(self, seconds: float | None, timing: Timing) -> None:
        """Wait for `wake`, at most `seconds`; None waits without a limit."""
        if seconds is None:
            await self._woken.wait()
            return
        waiting: set[asyncio.Future[Any]] = {
            asyncio.ensure_future(self._woken.wait()),
            asyncio.ensure_future(timing.sleep(seconds)),
        }
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for future in waiting:
                future.cancel()


LONGEST_PAUSE_SECONDS = 600.0
"""Longest pause after a `retry-after`: an absurd value must not block a provider until the process ends."""


class Ticket:
    """The permission to make one request."""

    def __init__(self, limits: "ProviderLimits", entry: WindowEntry | None) -> None:
        self._limits = limits
        self._entry = entry
        self.loop = asyncio.get_running_loop()

    def settle(self, tokens: int) -> None:
        """Report the actual number of tokens of the request."""
        if self._entry is not None:
            self._limits.settle(self._entry, tokens)


class ProviderLimits:
    """Admits requests in order of arrival, within the concurrency and rate limits of a provider.

    Only the first request in the queue checks the limits; the others wait for it. A cancelled request leaves
    the queue. Used from many event loops and threads; private methods other than `_acquire` are called with
    the lock held.
    """

    def __init__(self, name: str, settings: ProviderSettings, timing: Timing) -> None:
        self._name = name
        self._concurrency = settings.concurrency
        self._requests = SlidingWindow(settings.requests_per_minute) if settings.requests_per_minute else None
        self._tokens = SlidingWindow(settings.tokens_per_minute) if settings.tokens_per_minute else None
        self._timing = timing
        # Reentrant: the garbage collector may close an unreferenced request while this thread holds the lock.
        self._lock = threading.RLock()
        self._queue: deque[QueueSlot] = deque()
        self._open: set[Ticket] = set()
        """The tickets of running requests."""
        self._paused_until = float("-inf")

    def pause(self, seconds: float) -> None:
        """Admit no request for `seconds`, a provider's `retry-after`; at most LONGEST_PAUSE_SECONDS."""
        with self._lock:
            until = self._timing.now() + min(seconds, LONGEST_PAUSE_SECONDS)
            self._paused_until = max(self._paused_until, until)
            self._wake_first()

    def settle(self, entry: WindowEntry, tokens: int) -> None:
        """Replace the estimated tokens of a request with the actual number."""
        with self._lock:
            if self._tokens is not None:
                self._tokens.settle(entry, tokens)

    @asynccontextmanager
    async def ticket(self, tokens: int, longest_wait: float | None = None) -> AsyncIterator[Ticket]:
        """Wait for admission, and hold one of the concurrency slots during the `with` block.

        `tokens` is the estimate for the request. Raise ModelError if the provider asked for a pause longer
        than `longest_wait` seconds.
        """
        ticket = await self._acquire(tokens, longest_wait)
        try:
            yield ticket
        finally:
            with self._lock:
                self._open.discard(ticket)
                self._wake_first()

    async def _acquire(self, tokens: int, longest_wait: float | None) -> Ticket:
        with self._lock:
            if not self._queue and self._wait_seconds(tokens) == 0.0:
                return self._issue_ticket(tokens)
            slot = QueueSlot()
            self._queue.append(slot)
            self._wake_first()  # also drops slots before this one with a closed event loop
        try:
            while True:
                with self._lock:
                    slot.reset()  # before the check, so that a later change wakes this request
                    wait = self._wait_seconds(tokens) if self._queue[0] is slot else None
                    if wait == 0.0:
                        self._queue.popleft()
                        return self._issue_ticket(tokens)
                    if self._queue[0] is slot:
                        self._check_pause(longest_wait)
                await slot.wait(wait, self._timing)
        except BaseException:
            with self._lock:
                if slot in self._queue:  # others remove it if its event loop is closed
                    self._queue.remove(slot)
                self._wake_first()
            raise

    def _issue_ticket(self, tokens: int) -> Ticket:
        now = self._timing.now()
        if self._requests is not None:
            self._requests.take(1, now)
        ticket = Ticket(self, self._tokens.take(tokens, now) if self._tokens is not None else None)
        self._open.add(ticket)
        self._wake_first()
        return ticket

    def _wake_first(self) -> None:
        """Wake the first request in the queue, dropping those with a closed event loop."""
        while self._queue and not self._queue[0].wake():
            self._queue.popleft()

    def _wait_seconds(self, tokens: int) -> float | None:
        """Return the seconds until a request may start; None if a running request must end first."""
        if len(self._open) >= self._concurrency:
            self._open -= {ticket for ticket in tuple(self._open) if ticket.loop.is_closed()}
        if len(self._open) >= self._concurrency:
            return None
        now = self._timing.now()
        waits = [self._paused_until - now, 0.0]
        if self._requests is not None:
            waits.append(self._requests.wait_seconds(1, now))
        if self._tokens is not None:
            waits.append(self._tokens.wait_seconds(tokens, now))
        return max(waits)

    def _check_pause(self, longest_wait: float | None) -> None:
        left = self._paused_until - self._timing.now()
        if longest_wait is not None and left > longest_wait:
            raise ModelError(
                "llm_error",
                f"{self._name} asked not to be called for another {left:.0f} seconds, "
                f"but this request may wait only {longest_wait:.0f}",
                is_transient=True,
                retry_after_seconds=left,
            )


_limits_lock = threading.Lock()
_limits: dict[tuple[Access, Timing], ProviderLimits] = {}
"""Kept until the process ends, because the requests of the last minute count for later connections."""


def limits_of(access: Access, timing: Timing) -> ProviderLimits:
    """Return the shared limits of a provider; another address, key or setting has limits of its own."""
    with _limits_lock:
        found = _limits.get((access, timing))
        if found is None:
            found = _limits[access, timing] = ProviderLimits(access.name, access.settings, timing)
        return found
