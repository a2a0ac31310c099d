"""Clocks, passed to the code that needs the time of tasks, leases and schedules, so that tests can set it."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

JUMP_SECONDS = 2.0
"""Seconds by which a clock must deviate from the monotonic time to count as jumped; smaller deviations are
delays or NTP corrections."""


class Clock(Protocol):
    """A source of the current time."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class ManualClock:
    """A clock for tests that changes only when `advance` or `set` is called."""

    def __init__(self, start: datetime = datetime(2025, 1, 15, 10, 30, tzinfo=UTC)) -> None:
        self._now = start

    def now(self) -> datetime:
        return self._now

    def advance(self, step: timedelta) -> None:
        self._now += step

    def set(self, now: datetime) -> None:
        self._now = now


DRIFT = 0.001
"""Largest assumed fraction by which this machine's clock runs faster than the server's; quartz clocks and NTP
stay far below it."""


class SyncedClock:
    """The time of a server: the last time it sent, plus the monotonic time since then."""

    def __init__(self, server_now: datetime, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._set(server_now)

    def now(self) -> datetime:
        return self._server_now + timedelta(seconds=(self._monotonic() - self._read_at) * self._rate)

    def sync(self, server_now: datetime) -> None:
        """Adjust to a time that the server has just sent.

        If that time is earlier than this clock's by less than JUMP_SECONDS, because the reply was slow or
        this machine's clock is fast, this clock is not set back but runs slightly slower until the next sync.
        Without that, a fast clock would gain on the server until the difference looked like a jump.
        """
        now = self.now()
        behind = (now - server_now).total_seconds()
        if 0 < behind < JUMP_SECONDS:
            self._set(now, rate=1.0 - DRIFT)
        else:
            self._set(server_now)

    def _set(self, now: datetime, *, rate: float = 1.0) -> None:
        self._server_now, self._read_at, self._rate = now, self._monotonic(), rate
