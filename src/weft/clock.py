"""Clocks, which are passed in wherever time is needed; no other module reads the system time."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

JUMP_SECONDS = 2.0
"""Difference from the monotonic time above which a clock has jumped; smaller ones are delays or NTP
corrections."""


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
"""How much faster than the server's clock this machine's clock may run: far more than quartz and NTP
allow."""


class SyncedClock:
    """The time of a server: the last time it sent, plus the monotonic time since then."""

    def __init__(self, server_now: datetime, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._set(server_now)

    def now(self) -> datetime:
        return self._server_now + timedelta(seconds=(self._monotonic() - self._read_at) * self._rate)

    def sync(self, server_now: datetime) -> None:
        """Adjust to a time that the server has just sent.

        A slow reply carries an earlier time. Unless the server's clock jumped, this clock then runs
        slightly slower until the next reply. Otherwise a machine that runs faster than the server would
        gain on it every hour, until the difference looked like a jump.
        """
        now = self.now()
        behind = (now - server_now).total_seconds()
        if 0 < behind < JUMP_SECONDS:
            self._set(now, rate=1.0 - DRIFT)
        else:
            self._set(server_now)

    def _set(self, now: datetime, *, rate: float = 1.0) -> None:
        self._server_now, self._read_at, self._rate = now, self._monotonic(), rate
