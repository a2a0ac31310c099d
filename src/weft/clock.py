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


class SyncedClock:
    """Tell the time of a server: what it said last, plus the monotonic time since then."""

    def __init__(self, server_now: datetime, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._server_now = server_now
        self._read_at = monotonic()

    def now(self) -> datetime:
        return self._server_now + timedelta(seconds=self._monotonic() - self._read_at)

    def sync(self, server_now: datetime) -> None:
        """Take over a time that the server has just sent.

        A reply that took longer tells an earlier time: it is ignored unless the server's clock jumped.
        """
        behind = (self.now() - server_now).total_seconds()
        if not 0 <= behind < JUMP_SECONDS:
            self._server_now, self._read_at = server_now, self._monotonic()
