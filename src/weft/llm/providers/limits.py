"""How fast a provider is asked: requests at the same time and per minute, tokens per minute, and pauses."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from weft.llm.errors import ModelError
from weft.llm.providers.timing import Timing
from weft.llm.providers.windows import Use, Window
from weft.model_settings import ProviderSettings

LONGEST_PAUSE_SECONDS = 600.0
"""A date in 2099 or a number with too many digits must not shut a provider out for the life of a process."""


class Ticket:
    """The right to make one request."""

    def __init__(self, tokens: Window | None, use: Use | None) -> None:
        self._tokens = tokens
        self._use = use

    def settle(self, tokens: int) -> None:
        """Say how many tokens it really took."""
        if self._tokens is not None and self._use is not None:
            self._tokens.settle(self._use, tokens)


class ProviderLimits:
    """Lets requests through in the order they came, as many and as fast as the provider is to be asked.

    Only the first in the queue looks at the limits; the others wait for it. Who is cancelled leaves the
    queue, and the next one is first. Belongs to one event loop.
    """

    def __init__(self, name: str, settings: ProviderSettings, timing: Timing) -> None:
        self._name = name
        self._concurrency = settings.concurrency
        self._requests = Window(settings.requests_per_minute) if settings.requests_per_minute else None
        self._tokens = Window(settings.tokens_per_minute) if settings.tokens_per_minute else None
        self._timing = timing
        self._queue: deque[asyncio.Event] = deque()
        self._running = 0
        self._paused_until = float("-inf")
        self._changed = asyncio.Event()

    def pause(self, seconds: float) -> None:
        """Let nobody through for that long: the provider has said so to one, and means all.

        Not for longer than LONGEST_PAUSE_SECONDS: then it is asked again, and may have thought better of it.
        """
        until = self._timing.now() + min(seconds, LONGEST_PAUSE_SECONDS)
        self._paused_until = max(self._paused_until, until)
        self._changed.set()

    @asynccontextmanager
    async def ticket(self, tokens: int, longest_wait: float | None = None) -> AsyncIterator[Ticket]:
        """Wait for the turn, and hold one of the places for the length of the block.

        Raises ModelError when the provider asked for a pause that is longer than may be waited.
        """
        await self._turn(tokens, longest_wait)
        now = self._timing.now()
        if self._requests is not None:
            self._requests.take(1, now)
        use = self._tokens.take(tokens, now) if self._tokens is not None else None
        self._running += 1
        self._next()
        try:
            yield Ticket(self._tokens, use)
        finally:
            self._running -= 1
            self._changed.set()

    async def _turn(self, tokens: int, longest_wait: float | None) -> None:
        """Return when this request is the first and nothing keeps it back; it has left the queue then."""
        if not self._queue and self._wait_seconds(tokens) == 0.0:
            return
        place = asyncio.Event()
        self._queue.append(place)
        try:
            if self._queue[0] is not place:
                await place.wait()
            while (wait := self._wait_seconds(tokens)) != 0.0:
                self._check_pause(longest_wait)
                await self._change(wait)
        except BaseException:
            self._queue.remove(place)
            self._next()
            raise
        self._queue.popleft()

    def _next(self) -> None:
        """Tell the first in the queue that it is the first."""
        if self._queue:
            self._queue[0].set()

    def _wait_seconds(self, tokens: int) -> float | None:
        """How long to wait: 0 not at all, None until somebody is done."""
        if self._running >= self._concurrency:
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

    async def _change(self, seconds: float | None) -> None:
        """Wait that long, or until something has changed."""
        self._changed.clear()
        changed = asyncio.ensure_future(self._changed.wait())
        waiting: set[asyncio.Future[Any]] = {changed}
        if seconds is not None:
            waiting.add(asyncio.ensure_future(self._timing.sleep(seconds)))
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()
