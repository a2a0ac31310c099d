"""Retries requests after transient errors, within the caller's deadline."""

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from weft.limits import Backoff
from weft.llm.errors import ModelError
from weft.llm.events import OnEvent, RequestRetried
from weft.llm.providers.rate_limits import Timing

_DEADLINE: ContextVar[float | None] = ContextVar("weft_model_deadline", default=None)


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Set a deadline for the requests in the `with` block; None keeps the outer deadline.

    The deadline cancels nothing: a request does not start a wait that would end after it.
    """
    outer = _DEADLINE.get()
    ends = [at for at in (outer, None if seconds is None else time.monotonic() + seconds) if at is not None]
    token = _DEADLINE.set(min(ends, default=None))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def seconds_left() -> float | None:
    """Return the seconds until the deadline, or None if there is no deadline."""
    deadline = _DEADLINE.get()
    return None if deadline is None else max(0.0, deadline - time.monotonic())


T = TypeVar("T")

REQUEST_BACKOFF = Backoff(delay=0.25, jitter=1.0, cap=15.0)
"""Before a request is retried: full jitter, from 0 to 0.5 seconds at first and to 30 at most, so that
requests that a provider refused together do not come back together."""

MAX_INVALID_RESPONSES = 2
"""Number of invalid responses after which a request fails: one may be a glitch, two mean a broken server."""


def longest_wait(most_seconds: float) -> float:
    """Return how many seconds a request may wait: `most_seconds`, or fewer if the deadline is earlier."""
    left = seconds_left()
    return most_seconds if left is None else min(most_seconds, left)


class Retries:
    """Retries a request up to `retries` times, with exponential backoff and full jitter.

    The provider's `retry-after` is the minimum delay. A request is not retried if the delay exceeds
    `most_seconds` or the caller's deadline.
    """

    def __init__(
        self,
        model: str,
        *,
        retries: int,
        most_seconds: float,
        timing: Timing,
        on_event: OnEvent | None = None,
    ) -> None:
        self._model = model
        self._retries = retries
        self._most_seconds = most_seconds
        self._timing = timing
        self._on_event = on_event

    async def run(
        self,
        request: Callable[[], Awaitable[T]],
        *,
        may_retry: Callable[[], bool],
        on_refused: Callable[[float], None],
    ) -> T:
        """Perform the request with retries and return its result.

        `may_retry` returns False once text has been delivered, which a retry would deliver again.
        `on_refused` is called with the provider's `retry-after` in seconds, if an error has one.
        """
        invalid = 0
        attempt = 1
        while True:
            try:
                return await request()
            except ModelError as error:
                failed = error
            if failed.retry_after_seconds is not None:
                on_refused(failed.retry_after_seconds)
            invalid += failed.reason == "protocol_error"
            if (
                not failed.is_transient
                or attempt > self._retries
                or invalid >= MAX_INVALID_RESPONSES
                or not may_retry()
            ):
                raise failed
            delay = REQUEST_BACKOFF.delay_after(attempt, self._timing.chance())
            delay += failed.retry_after_seconds or 0.0
            self._check_delay(delay, failed)
            self._emit(attempt, delay, failed)
            await self._timing.sleep(delay)
            attempt += 1

    def _check_delay(self, delay: float, error: ModelError) -> None:
        allowed = longest_wait(self._most_seconds)
        if delay > allowed:
            raise ModelError(
                error.reason,
                f"{error.message} (not retried: the next attempt would be in {delay:.0f} seconds, "
                f"but this request may wait only {allowed:.0f})",
                is_transient=True,
                retry_after_seconds=error.retry_after_seconds,
                partial_text=error.partial_text,
                is_charged=error.is_charged,
            )

    def _emit(self, attempt: int, delay: float, error: ModelError) -> None:
        if self._on_event is not None:
            message = error.message.removeprefix(f"{self._model}: ")  # the event has the model already
            self._on_event(
                RequestRetried(model=self._model, attempt=attempt, delay_seconds=delay, message=message)
            )
