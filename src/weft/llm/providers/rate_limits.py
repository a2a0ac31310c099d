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


class Use:
    """An amount that was taken at some time; what it really was is known later."""

    __slots__ = ("amount", "at")

    def __init__(self, at: float, amount: float) -> None:
        self.at = at
        self.amount = amount


class Window:
    """Counts uses of the last sixty seconds against a limit.

    A bucket that fills up steadily would let twice the limit through in the first minute, and providers that
    count by the minute would refuse half of it.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._uses: deque[Use] = deque()
        self._sum = 0.0

    def wait_seconds(self, amount: float, now: float) -> float:
        """How long until that much may be used; what is larger than the limit has to be alone."""
        self._forget(now)
        too_much = self._sum + min(amount, self._limit) - self._limit
        if too_much <= 0:
            return 0.0
        for use in self._uses:
            too_much -= use.amount
            if too_much <= 0:
                return use.at + WINDOW_SECONDS - now
        return 0.0

    def take(self, amount: float, now: float) -> Use:
        """Count a use."""
        use = Use(now, amount)
        self._uses.append(use)
        self._sum += amount
        return use

    def settle(self, use: Use, amount: float) -> None:
        """Count what was really used in place of what was expected."""
        if self._uses and use.at >= self._uses[0].at:
            self._sum += amount - use.amount
        use.amount = amount

    def _forget(self, now: float) -> None:
        while self._uses and self._uses[0].at + WINDOW_SECONDS <= now:
            self._sum -= self._uses.popleft().amount
        if not self._uses:
            self._sum = 0.0  # sums of fractions do not come back to nothing by themselves


class Timing(Struct, frozen=True, kw_only=True):
    """What retries and limits know of time."""

    now: Callable[[], float] = time.monotonic
    """Seconds that only grow."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    """A number from 0 to 1: it spreads retries, and keeps no secret."""


class Place:
    """Where one request waits, in the event loop that it was made in."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()

    def wake(self) -> bool:
        """Have it look again, from whatever thread; False when its loop is closed and nobody waits there."""
        try:
            self._loop.call_soon_threadsafe(self._woken.set)
        except RuntimeError:
            return False
        return True

    def sleep_on(self) -> None:
        """From now on `rest` waits for the next `wake`."""
        self._woken.clear()

    async def rest(self, seconds: float | None, timing: Timing) -> None:
        """Wait until it is woken, or that long."""
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
            for one in waiting:
                one.cancel()


LONGEST_PAUSE_SECONDS = 600.0
"""A date in 2099 or a number with too many digits must not shut a provider out for the life of a process."""


class Ticket:
    """The right to make one request."""

    def __init__(self, limits: "ProviderLimits", use: Use | None) -> None:
        self._limits = limits
        self._use = use
        self.loop = asyncio.get_running_loop()

    def settle(self, tokens: int) -> None:
        """Say how many tokens it really took."""
        if self._use is not None:
            self._limits.settle(self._use, tokens)


class ProviderLimits:
    """Lets requests through in the order they came, as many and as fast as the provider is to be asked.

    Only the first in the queue looks at the limits; the others wait for it. Who is cancelled leaves the
    queue, and the next one is first. Used by many event loops and threads; methods whose name begins with an
    underscore, other than `_turn`, are called with the lock held.
    """

    def __init__(self, name: str, settings: ProviderSettings, timing: Timing) -> None:
        self._name = name
        self._concurrency = settings.concurrency
        self._requests = Window(settings.requests_per_minute) if settings.requests_per_minute else None
        self._tokens = Window(settings.tokens_per_minute) if settings.tokens_per_minute else None
        self._timing = timing
        # Reentrant: the collector may end a request that was forgotten while this thread holds the lock.
        self._lock = threading.RLock()
        self._queue: deque[Place] = deque()
        self._open: set[Ticket] = set()
        self._paused_until = float("-inf")

    def pause(self, seconds: float) -> None:
        """Let nobody through for that long: the provider has said so to one, and means all.

        Not for longer than LONGEST_PAUSE_SECONDS: then it is asked again, and may have thought better of it.
        """
        with self._lock:
            until = self._timing.now() + min(seconds, LONGEST_PAUSE_SECONDS)
            self._paused_until = max(self._paused_until, until)
            self._wake_first()

    def settle(self, use: Use, tokens: int) -> None:
        """Count what a request really took."""
        with self._lock:
            if self._tokens is not None:
                self._tokens.settle(use, tokens)

    @asynccontextmanager
    async def ticket(self, tokens: int, longest_wait: float | None = None) -> AsyncIterator[Ticket]:
        """Wait for the turn, and hold one of the places for the length of the block.

        Raises ModelError when the provider asked for a pause that is longer than may be waited.
        """
        ticket = await self._turn(tokens, longest_wait)
        try:
            yield ticket
        finally:
            with self._lock:
                self._open.discard(ticket)
                self._wake_first()

    async def _turn(self, tokens: int, longest_wait: float | None) -> Ticket:
        """A ticket when this request is the first and nothing keeps it back."""
        with self._lock:
            if not self._queue and self._wait_seconds(tokens) == 0.0:
                return self._take(tokens)
            place = Place()
            self._queue.append(place)
            self._wake_first()  # which drops those before it whose loop has been closed
        try:
            while True:
                with self._lock:
                    place.sleep_on()  # before the look: what changes after it wakes this one
                    wait = self._wait_seconds(tokens) if self._queue[0] is place else None
                    if wait == 0.0:
                        self._queue.popleft()
                        return self._take(tokens)
                    if self._queue[0] is place:
                        self._check_pause(longest_wait)
                await place.rest(wait, self._timing)
        except BaseException:
            with self._lock:
                if place in self._queue:  # others remove it when they find its loop closed
                    self._queue.remove(place)
                self._wake_first()
            raise

    def _take(self, tokens: int) -> Ticket:
        now = self._timing.now()
        if self._requests is not None:
            self._requests.take(1, now)
        ticket = Ticket(self, self._tokens.take(tokens, now) if self._tokens is not None else None)
        self._open.add(ticket)
        self._wake_first()
        return ticket

    def _wake_first(self) -> None:
        """Have the first in the queue look; one whose loop has been closed waits no more."""
        while self._queue and not self._queue[0].wake():
            self._queue.popleft()

    def _wait_seconds(self, tokens: int) -> float | None:
        """How long to wait: 0 not at all, None until somebody is done."""
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
                f"and this request may wait {longest_wait:.0f}",
                is_transient=True,
                retry_after_seconds=left,
            )


_known = threading.Lock()
_limits: dict[tuple[Access, Timing], ProviderLimits] = {}
"""They stay until the process ends: what was asked in the last minute counts for whoever asks next."""


def limits_of(access: Access, timing: Timing) -> ProviderLimits:
    """The one queue before a provider; another address, key or setting is another provider."""
    with _known:
        found = _limits.get((access, timing))
        if found is None:
            found = _limits[access, timing] = ProviderLimits(access.name, access.settings, timing)
        return found
