"""What lies between a process and its store: delays, failures, and times in which nothing comes through."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextvars import Context
from pathlib import Path
from random import Random
from typing import TypeVar

from msgspec import Struct

from tests.simulation.processes import Process, SimulatedLoop
from weft.clock import Clock, SyncedClock
from weft.store.errors import StoreBusy, StoreError, StoreUnreachable
from weft.store.group_commit import Done
from weft.store.sqlite.memory import MemoryAccess
from weft.store.unit_of_work import Request

T = TypeVar("T")


class _Fate(Struct, frozen=True):
    """What becomes of one call."""

    before: float
    """Seconds until the store sees it."""
    after: float
    """Seconds until the process hears of it."""
    error: Exception | None = None
    """Why the store never sees it."""


class Network:
    """Decides on every call of every process; `heal` ends all faults."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self.failure_rate = chance.choice((0.0, 0.01, 0.05))
        self.slow_rate = chance.choice((0.0, 0.01, 0.05))
        self.hang_rate = chance.choice((0.0, 0.0, 0.002))
        self.down: set[str] = set()
        """The processes that cannot reach the store."""

    def heal(self) -> None:
        self.failure_rate = self.slow_rate = self.hang_rate = 0.0
        self.down.clear()

    def fate(self, process: Process) -> _Fate:
        chance = self._chance
        before, after = self._delay(), self._delay()
        if process.is_dead:
            return _Fate(0.0, 0.0, StoreError("the process is dead"))
        if process.name in self.down:
            return _Fate(before, after, StoreUnreachable("the store does not answer"))
        if chance.random() < self.failure_rate:
            return _Fate(before, after, chance.choice((StoreBusy, StoreUnreachable))("a fault of the store"))
        return _Fate(before, after)

    def _delay(self) -> float:
        chance = self._chance
        drawn = chance.random()
        if drawn < self.hang_rate:
            return chance.uniform(5.0, 30.0)
        if drawn < self.slow_rate:
            return chance.uniform(0.1, 3.0)
        return chance.uniform(0.0005, 0.01)


class RemoteAccess:
    """A process's way to a database in memory, as if that were a server elsewhere.

    The store goes on with a transaction that has reached it also when the process is frozen or dead by then.
    """

    renews_with_lock = False

    def __init__(self, inner: MemoryAccess, network: Network, process: Process, loop: SimulatedLoop) -> None:
        self.path: Path = inner.path
        self._synced = SyncedClock(inner.clock.now(), loop.time)
        self.clock: Clock = self._synced
        self._inner = inner
        self._network = network
        self._process = process
        self._loop = loop

    def commit(self, requests: Sequence[Request], done: Done) -> None:
        fate = self._network.fate(self._process)
        if fate.error is not None:
            self._loop.call_later(fate.before + fate.after, done, fate.error)
            return
        answered = self._loop.create_future()
        answered.add_done_callback(lambda answer: done(answer.result()))

        def serve() -> None:
            outcomes: list[Sequence[object] | Exception] = []
            self._inner.commit(requests, outcomes.append)
            self._loop.call_later(fate.after, answered.set_result, outcomes[0], context=Context())

        self._loop.call_later(fate.before, serve, context=Context())

    async def read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        fate = self._network.fate(self._process)
        await asyncio.sleep(fate.before)
        if fate.error is not None:
            raise fate.error
        found, now = self._inner.read_now(read), self._inner.clock.now()
        await asyncio.sleep(fate.after)
        self._synced.sync(now)
        return found

    def read_now(self, read: Callable[[sqlite3.Connection], T]) -> T:
        fate = self._network.fate(self._process)
        if fate.error is not None:
            raise fate.error
        return self._inner.read_now(read)

    def check(self) -> None:
        """Nobody replaces it."""

    def exposure(self) -> str | None:
        return None

    def stop_waiting(self) -> None:
        """Do nothing: the network decides when a call ends."""

    async def close(self) -> None:
        await self._inner.close()
