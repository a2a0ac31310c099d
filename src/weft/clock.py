"""Time comes from a `Clock` that is passed in; nothing else asks the machine what time it is."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

JUMP_SECONDS = 2.0
"""A difference to the monotonic time that is a jump of the clock, not a delay or a correction by NTP."""


class Clock(Protocol):
    """What tells the time."""

    def now(self) -> datetime:
        """The current time, in UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class ManualClock:
    """A clock that moves only when told to; for tests."""

    def __init__(self, start: datetime = datetime(2025, 1, 15, 10, 30, tzinfo=UTC)) -> None:
        self._now = start

    def now(self) -> datetime:
        return self._now

    def advance(self, step: timedelta) -> None:
        self._now += step

    def set(self, now: datetime) -> None:
        self._now = now


DRIFT = 0.001
"""How much faster than the server's a machine's clock may run: many times what quartz and NTP allow."""


class SyncedClock:
    """Tell the time of a server: what it said last, plus the monotonic time since then."""

    def __init__(self, server_now: datetime, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._set(server_now)

    def now(self) -> datetime:
        return self._server_now + timedelta(seconds=(self._monotonic() - self._read_at) * self._rate)

    def sync(self, server_now: datetime) -> None:
        """Take over a time that the server has just sent.

        A reply that took longer tells an earlier time: unless the server's clock jumped, this one only runs
        a little slower until the next reply. Else a machine that runs faster than the server would be ahead
        of it by more every hour, and take that for a jump at last.
        """
        now = self.now()
        behind = (now - server_now).total_seconds()
        if 0 < behind < JUMP_SECONDS:
            self._set(now, rate=1.0 - DRIFT)
        else:
            self._set(server_now)

    def _set(self, now: datetime, *, rate: float = 1.0) -> None:
        self._server_now, self._read_at, self._rate = now, self._monotonic(), rate
