"""The writer of a SQLite file: it commits small groups in the event loop, and others in a thread."""

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from weft.clock import Clock
from weft.gc_tuning import pause_collector
from weft.limits import Backoff
from weft.store.errors import StoreBusy
from weft.store.group_commit import Done
from weft.store.models import ClaimResult
from weft.store.sqlite.commit import Outcomes, try_to_commit
from weft.store.sqlite.connection import BUSY_TIMEOUT_SECONDS
from weft.store.unit_of_work import Request, is_large

SMALL_GROUP = 8
"""Number of requests, and of claimed tasks, that take a fraction of a millisecond to write. A thread switch
would take as long as the work, and a chain of tasks makes one such write after another."""

LOCK_BACKOFF = Backoff(delay=0.001, cap=0.02)
"""Before the next try while another process holds the lock."""


class Writer:
    """Commits groups of requests, one at a time, on a connection that does not wait for locks itself."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, clock: Clock, *, waits_for_disk: bool
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._is_exiting = threading.Event()
        self._path = path
        self._waits_for_disk = waits_for_disk
        self._last_claimed = 0
        self._queue: queue.SimpleQueue[tuple[asyncio.AbstractEventLoop, Sequence[Request], Done] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._run, name="weft-writer", daemon=True)
        self._thread.start()

    def commit(self, requests: Sequence[Request], done: Done) -> None:
        """Commit the requests and call `done` in the running event loop. No other commit may be running."""
        if self._is_small(requests):
            outcomes = self._outcomes(requests)
            if not isinstance(outcomes, StoreBusy):
                done(outcomes)
                return
        self._queue.put((asyncio.get_running_loop(), requests, done))

    def stop_waiting(self) -> None:
        """Stop waiting for another process that holds the lock."""
        self._is_exiting.set()

    def stop(self) -> None:
        """End the thread. No commit may be running."""
        self._queue.put(None)
        self._thread.join()

    def _is_small(self, requests: Sequence[Request]) -> bool:
        """Return whether the group is fast to write, assuming that a claim is as large as the last one."""
        return (
            len(requests) <= SMALL_GROUP
            and self._last_claimed <= SMALL_GROUP
            and not self._waits_for_disk
            and not any(map(is_large, requests))
        )

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            loop, requests, done = item
            with pause_collector():
                outcomes = self._outcomes_with_retries(requests)
            try:
                loop.call_soon_threadsafe(done, outcomes)
            except RuntimeError:  # the loop was closed meanwhile; nobody waits for the outcomes
                return

    def _outcomes_with_retries(self, requests: Sequence[Request]) -> Outcomes:
        """Return the outcomes, retrying while another process holds the lock, up to BUSY_TIMEOUT_SECONDS."""
        deadline = time.monotonic() + BUSY_TIMEOUT_SECONDS
        failures = 0
        outcomes = self._outcomes(requests)
        while isinstance(outcomes, StoreBusy) and time.monotonic() < deadline:
            failures += 1
            if self._is_exiting.wait(LOCK_BACKOFF.delay_after(failures)):
                break
            outcomes = self._outcomes(requests)
        return outcomes

    def _outcomes(self, requests: Sequence[Request]) -> Outcomes:
        outcomes = try_to_commit(self._connection, requests, self._clock, self._path)
        last = outcomes[-1] if isinstance(outcomes, list) and outcomes else None
        self._last_claimed = len(last.claimed) if isinstance(last, ClaimResult) else self._last_claimed
        return outcomes
