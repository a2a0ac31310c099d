"""Clocks that follow a server."""

from datetime import UTC, datetime, timedelta

from weft.clock import SyncedClock

NOON = datetime(2025, 1, 15, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


class Monotonic:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_a_synced_clock_counts_on_from_what_the_server_said() -> None:
    time = Monotonic()
    clock = SyncedClock(NOON, time)
    time.seconds += 5

    assert clock.now() == NOON + 5 * SECOND


def test_a_slow_reply_does_not_put_a_synced_clock_back() -> None:
    time = Monotonic()
    clock = SyncedClock(NOON, time)
    time.seconds += 5
    clock.sync(NOON + 4 * SECOND)

    assert clock.now() == NOON + 5 * SECOND


def test_a_synced_clock_follows_a_server_that_is_ahead_or_jumps() -> None:
    time = Monotonic()
    clock = SyncedClock(NOON, time)
    clock.sync(NOON + SECOND)
    ahead = clock.now()
    clock.sync(NOON - 3600 * SECOND)

    assert (ahead, clock.now()) == (NOON + SECOND, NOON - 3600 * SECOND)


def test_a_synced_clock_does_not_run_away_from_a_server_that_is_slower_than_the_machine() -> None:
    time = Monotonic()
    clock = SyncedClock(NOON, time)
    ahead: list[float] = []
    for second in range(1, 24 * 3600):
        time.seconds += 1.0
        server_now = NOON + second * 0.9999 * SECOND  # as by a quartz that is 100 ppm too fast
        clock.sync(server_now)
        ahead.append((clock.now() - server_now).total_seconds())

    assert max(ahead) < 0.01
    assert min(ahead) >= 0.0, "it is never put back"
