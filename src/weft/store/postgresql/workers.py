"""Workers and their leases. Recovery does one thing: it gives tasks back; the next claim decides."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta

import asyncpg

from weft.clock import Clock
from weft.ids import TaskId
from weft.settings import shown_location
from weft.store.attempts import CLOCK_PUT_BACK, claim_facts
from weft.store.postgresql.connection import (
    CLOSE_TIMEOUT_SECONDS,
    LOST,
    Timeouts,
    begin_call,
    connect_writer,
    translated_errors,
)
from weft.store.postgresql.entry import Entry
from weft.store.postgresql.rows import attempt_event_row
from weft.store.protocol import Claim
from weft.store.queries import load_queries
from weft.store.requests import AddWorker, Recover, RemoveWorker, RestartDelays
from weft.tasks.events import EventType

_SQL = load_queries("postgresql")


async def add_worker(connection: asyncpg.Connection, entry: Entry) -> None:
    """Make a worker known."""
    request: AddWorker = entry.request
    lease_until = entry.now + timedelta(seconds=request.lease_seconds)
    await connection.execute(_SQL["add_worker"], request.worker, lease_until, request.methods)
    await connection.execute(_SQL["remove_old_writers"])


SHORTEST_SECONDS = 0.5
"""How long a renewal may take at least, however short the lease is."""


class Leases:
    """Renews leases on a connection of its own, and without the write lock: no writer can keep it waiting."""

    def __init__(self, url: str, timeouts: Timeouts, clock: Clock | None) -> None:
        self._url = url
        self._location = shown_location(url)
        self._timeouts = timeouts
        self._clock = clock
        self._connection: asyncpg.Connection | None = None
        self._turn = asyncio.Lock()  # several engines may share the store

    async def renew(self, worker: str, lease_seconds: float) -> frozenset[Claim] | None:
        """Renew a worker's lease; the claims it holds, or None when it was taken for dead."""
        lease = timedelta(seconds=lease_seconds)
        now = None if self._clock is None else self._clock.now()
        # Long before the lease runs out, so that there is time for another try.
        seconds = min(max(lease_seconds / 4, SHORTEST_SECONDS), self._timeouts.command_seconds)
        async with self._connected(seconds) as connection:
            if not await connection.fetch(_SQL["renew_worker"], worker, lease, now):
                return None
            held = await connection.fetch(_SQL["tasks_of_worker"], worker)
        return frozenset(map(_claim, held))

    async def facts(self) -> tuple[int, datetime]:
        """Return the version of the schema and the server's time."""
        async with self._connected(self._timeouts.command_seconds) as connection:
            version = await connection.fetchval(_SQL["schema_version"])
            return int(version), await connection.fetchval(_SQL["server_time"])

    async def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*LOST):
                await connection.close(timeout=CLOSE_TIMEOUT_SECONDS)

    def terminate(self) -> None:
        """End the connection at once, with whatever runs on it."""
        if self._connection is not None:
            self._connection.terminate()

    @asynccontextmanager
    async def _connected(self, seconds: float) -> AsyncIterator[asyncpg.Connection]:
        """Give the connection, a new one when the last was lost; one that fails or is too slow is ended."""
        with translated_errors(self._location):
            try:
                async with self._turn, asyncio.timeout(seconds):
                    await begin_call(is_write=False)
                    if self._connection is None or self._connection.is_closed():
                        self._connection = await connect_writer(self._url, self._timeouts)
                    yield self._connection
            except BaseException:
                if self._connection is not None:
                    self._connection.terminate()
                    self._connection = None
                raise


async def remove_worker(connection: asyncpg.Connection, entry: Entry) -> int:
    """Forget a worker that leaves, and give back what it held."""
    request: RemoveWorker = entry.request
    return await _give_back_all(connection, entry, [request.worker], request.now, losses=0)


async def recover(connection: asyncpg.Connection, entry: Entry) -> int:
    """Release what dead workers held: attempts that were lost."""
    request: Recover = entry.request
    dead = {row[0] for row in await connection.fetch(_SQL["unknown_workers"])}
    dead.update(row[0] for row in await connection.fetch(_SQL["expired_workers"], request.expired_at))
    dead |= set(request.dead)
    return await _give_back_all(connection, entry, sorted(dead), entry.now, losses=1) if dead else 0


async def restart_delays(connection: asyncpg.Connection, entry: Entry) -> Sequence[TaskId]:
    """Begin the delays of retries anew that began in the future, and shorten leases."""
    request: RestartDelays = entry.request
    if request.lease_seconds is not None:
        lease_until = entry.now + timedelta(seconds=request.lease_seconds)
        await connection.execute(_SQL["shorten_leases"], lease_until)
    rows = await connection.fetch(_SQL["restart_delays"], entry.now)
    for row in rows:
        facts = {"at": row["ready_at"].isoformat(), "reason": CLOCK_PUT_BACK}
        entry.events.append(attempt_event_row(_claim(row), EventType.TASK_RETRIED, entry.now, facts))
    return [TaskId(str(row["id"])) for row in rows]


async def _give_back_all(
    connection: asyncpg.Connection, entry: Entry, workers: Sequence[str], now: datetime, *, losses: int
) -> int:
    held = await connection.fetch(_SQL["give_back_all"], workers, now, losses)
    for row in sorted(held, key=lambda row: row["seq"]):
        claim = _claim(row)
        entry.events.append(attempt_event_row(claim, EventType.TASK_GIVEN_BACK, now, claim_facts(claim)))
    await connection.execute(_SQL["remove_workers"], workers)
    return len(held)


def _claim(row: asyncpg.Record) -> Claim:
    task_id, attempt, worker, tree, user_id, *_ = row
    return Claim(TaskId(str(task_id)), attempt, worker, TaskId(str(tree)), user_id)
