"""Retry requests after transient errors, within the caller's deadline."""

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from weft.llm.errors import ModelError
from weft.llm.events import OnEvent, RequestRetried
from weft.llm.providers.rate_limits import Timing

_DEADLINE: ContextVar[float | None] = ContextVar("weft_model_deadline", default=None)


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Everything that is asked in the block has that much time at most; None: no limit of its own.

    Nothing is cancelled here: the limit only tells a request whether a wait is worth it.
    """
    around = _DEADLINE.get()
    ends = [at for at in (around, None if seconds is None else time.monotonic() + seconds) if at is not None]
    token = _DEADLINE.set(min(ends, default=None))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def seconds_left() -> float | None:
    """How much time there is; None: as much as it takes."""
    deadline = _DEADLINE.get()
    return None if deadline is None else max(0.0, deadline - time.monotonic())


T = TypeVar("T")

FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 30.0
SENSELESS_ANSWERS = 2
"""How often an answer that is none is taken: a broken server stays broken, a hiccup does not."""


def longest_wait(most_seconds: float) -> float:
    """How long a request may wait: what the provider's settings allow, or the time its caller has left."""
    left = seconds_left()
    return most_seconds if left is None else min(most_seconds, left)


class Retries:
    """Makes a request up to `retries` times again.

    The delay doubles each time and is a random part of that (full jitter), so that requests that failed
    together do not come back together; what the provider asks for (`retry-after`) is waited at least.
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
        """What the request gives in the end.

        `may_retry` is false once text has been delivered: it would be delivered twice. `on_refused` is told
        how long nobody is to ask, when the provider says that it is asked too often.
        """
        senseless = 0
        attempt = 1
        while True:
            try:
                return await request()
            except ModelError as error:
                failed = error
            if failed.retry_after_seconds is not None:
                on_refused(failed.retry_after_seconds)
            senseless += failed.reason == "protocol_error"
            if (
                not failed.is_transient
                or attempt > self._retries
                or senseless >= SENSELESS_ANSWERS
                or not may_retry()
            ):
                raise failed
            delay = self._delay(failed, attempt)
            self._check(delay, failed)
            self._tell(attempt, delay, failed)
            await self._timing.sleep(delay)
            attempt += 1

    def _delay(self, error: ModelError, attempt: int) -> float:
        ceiling = min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** (attempt - 1))
        return (error.retry_after_seconds or 0.0) + self._timing.chance() * ceiling

    def _check(self, delay: float, error: ModelError) -> None:
        allowed = longest_wait(self._most_seconds)
        if delay > allowed:
            raise ModelError(
                error.reason,
                f"{error.message} (not tried again: that would be in {delay:.0f} seconds, "
                f"and this request may wait {allowed:.0f})",
                is_transient=True,
                retry_after_seconds=error.retry_after_seconds,
                partial_text=error.partial_text,
                is_charged=error.is_charged,
            )

    def _tell(self, attempt: int, delay: float, error: ModelError) -> None:
        if self._on_event is not None:
            message = error.message.removeprefix(f"{self._model}: ")  # the event has the model already
            self._on_event(
                RequestRetried(model=self._model, attempt=attempt, delay_seconds=delay, message=message)
            )
