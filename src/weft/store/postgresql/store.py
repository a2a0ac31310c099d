"""The PostgreSQL store: a connection for writes with group commit, one for leases, and a pool for reads."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, Self, TypeVar

import asyncpg

from weft.clock import Clock, SyncedClock
from weft.config.settings import shown_location
from weft.fault_points import store_faults
from weft.store.errors import NotAStore, StoreError
from weft.store.group_commit import Done
from weft.store.models import Claim
from weft.store.postgresql.connection import (
    CLOSE_TIMEOUT_SECONDS,
    LOST,
    Timeouts,
    begin_call,
    connect_writer,
    pool_of_readers,
    translated_errors,
)
from weft.store.postgresql.rows import DIALECT, SQL, decode, fetch, is_storable
from weft.store.postgresql.writer import Writer
from weft.store.protocol import StoreDescription, TaskStore
from weft.store.sql import is_current, load_migrations
from weft.store.tolerance import Tolerance
from weft.store.unit_of_work import Query, Request, Row
from weft.store.workers import claim_of

MIGRATION_SECONDS = 3600.0
"""A migration may rewrite every row of a large store."""


async def prepare(connection: asyncpg.Connection, location: str, *, must_exist: bool = False) -> None:
    """Migrate the schema to the current version. Raise if its tables are not weft's, or are newer."""
    # Checked before anything is locked, so that a current store can be opened with read-only permissions.
    if is_current("postgresql", await _version(connection, location), location, must_exist=must_exist):
        return
    await connection.execute(SQL["begin_write"], timeout=MIGRATION_SECONDS)
    try:
        # Another process may have migrated while we waited for the lock.
        version = await _version(connection, location)
        for number, script in enumerate(load_migrations("postgresql")[version:], version + 1):
            await connection.execute(script, timeout=MIGRATION_SECONDS)
            await connection.execute(SQL["set_schema_version"], number)
        await connection.execute("COMMIT")
    except BaseException:
        if not connection.is_closed():
            await connection.execute("ROLLBACK")
        raise


async def _version(connection: asyncpg.Connection, location: str) -> int:
    tables = {row["relname"] for row in await connection.fetch(SQL["our_tables"])}
    if "weft_schema" in tables:
        return int(await connection.fetchval(SQL["schema_version"]))
    if tables:
        names = ", ".join(sorted(tables))
        raise NotAStore(
            f"{location} has tables of another application ({names}); choose another schema with "
            "?search_path=SCHEMA in the URL"
        )
    return 0


SHORTEST_SECONDS = 0.5
"""Minimum time limit of a renewal, however short the lease is."""


class Leases:
    """Renews leases on its own connection and without the write lock, so that no writer can delay it."""

    def __init__(self, url: str, timeouts: Timeouts, clock: Clock | None) -> None:
        self._url = url
        self._location = shown_location(url)
        self._timeouts = timeouts
        self._clock = clock
        self._connection: asyncpg.Connection | None = None
        self._connection_lock = asyncio.Lock()  # several engines may share the store

    async def renew(self, worker: str, lease_seconds: float) -> frozenset[Claim] | None:
        """Renew a worker's lease. Return the claims it holds, or None if it was declared dead."""
        lease = timedelta(seconds=lease_seconds)
        now = None if self._clock is None else self._clock.now()
        # Much shorter than the lease, so that there is time for another try.
        seconds = min(max(lease_seconds / 4, SHORTEST_SECONDS), self._timeouts.command_seconds)
        async with self._connected(seconds) as connection:
            if not await connection.fetch(SQL["renew_worker"], worker, lease, now):
                return None
            held = await connection.fetch(SQL["tasks_of_worker"], worker)
        return frozenset(claim_of(row, worker) for row in held)

    async def facts(self) -> tuple[int, datetime]:
        """Return the schema version and the server's time."""
        async with self._connected(self._timeouts.command_seconds) as connection:
            version = await connection.fetchval(SQL["schema_version"])
            return int(version), await connection.fetchval(SQL["server_time"])

    async def close(self) -> None:
        """Close the connection, if it is open."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*LOST):
                await connection.close(timeout=CLOSE_TIMEOUT_SECONDS)

    def terminate(self) -> None:
        """Close the connection at once, aborting what runs on it."""
        if self._connection is not None:
            self._connection.terminate()

    @asynccontextmanager
    async def _connected(self, seconds: float) -> AsyncIterator[asyncpg.Connection]:
        """Yield the connection, or a new one if it was lost; terminate it on failure or after `seconds`."""
        with translated_errors(self._location):
            try:
                async with self._connection_lock, asyncio.timeout(seconds):
                    await begin_call(is_write=False)
                    if self._connection is None or self._connection.is_closed():
                        self._connection = await connect_writer(self._url, self._timeouts)
                    yield self._connection
            except BaseException:
                if self._connection is not None:
                    self._connection.terminate()
                    self._connection = None
                raise


T = TypeVar("T")
Reader = Any
"""A connection of the pool, for which the driver has its own type."""


class PostgresqlStore(TaskStore):
    """Task records in one schema of a PostgreSQL database, which several processes can share."""

    dialect = DIALECT

    def __init__(
        self,
        url: str,
        connection: asyncpg.Connection,
        readers: asyncpg.Pool,
        *,
        now: datetime,
        timeouts: Timeouts,
        clock: Clock | None,
    ) -> None:
        """Use the server's time `now` to synchronise the store's clock, unless `clock` replaces it."""
        super().__init__()
        self._location = shown_location(url)
        self._synced = SyncedClock(now)
        self._clock = clock
        self._timeouts = timeouts
        self._tolerance = Tolerance(timeouts.away_seconds)
        self._writer = Writer(
            url,
            connection,
            timeouts=timeouts,
            tolerance=self._tolerance,
            on_time=self._synced.sync,
            clock=clock,
        )
        self._leases = Leases(url, timeouts, clock)
        self._readers = readers
        self._is_closed = False
        self._committing: asyncio.Future[None] | None = None

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        must_exist: bool = False,
        timeouts: Timeouts | None = None,
        clock: Clock | None = None,
    ) -> Self:
        """Open the store in the first schema of the search path; create its tables unless `must_exist`."""
        timeouts = timeouts or Timeouts()
        connection = await connect_writer(url, timeouts)
        try:
            with translated_errors(shown_location(url)):
                await prepare(connection, shown_location(url), must_exist=must_exist)
                now = await connection.fetchval(SQL["server_time"])
                readers = await pool_of_readers(url, timeouts)
        except BaseException:
            connection.terminate()
            raise
        return cls(url, connection, readers, now=now, timeouts=timeouts, clock=clock)

    @property
    def clock(self) -> Clock:
        return self._clock or self._synced

    async def renew_worker(self, worker: str, *, lease_seconds: float) -> frozenset[Claim] | None:
        return await self._leases.renew(worker, lease_seconds) if is_storable(worker) else None

    @property
    def renews_with_lock(self) -> bool:
        return False

    async def check(self) -> None:
        async def read_facts() -> tuple[int, datetime]:
            with translated_errors(self._location):
                async with self._tolerance.limit():
                    return await self._leases.facts()

        version, now = await self._tolerance.retry(read_facts)
        self._synced.sync(now)
        is_current("postgresql", version, self._location, must_exist=False)

    def stop_waiting(self) -> None:
        self._tolerance.stop_waiting()

    async def describe(self) -> StoreDescription:
        found: Any = await self._read(lambda rows: rows[0], ("describe", ()))
        is_standby = found["is_standby"]
        return StoreDescription(
            kind="postgresql",
            location=self._location,
            server_version=found["server_version"],
            schema_version=found["schema_version"],
            tasks=found["tasks"],
            events=found["events"],
            problems=("the server is a standby: it is read-only",) if is_standby else (),
        )

    async def close(self) -> None:
        await self._group.close()
        self._is_closed = True
        if not self._tolerance.is_exiting:
            with suppress(*LOST):
                await self._writer.close()
                await self._leases.close()
                async with asyncio.timeout(CLOSE_TIMEOUT_SECONDS):
                    await self._readers.close()
        self._writer.terminate()
        self._leases.terminate()
        self._readers.terminate()

    def _commit(self, requests: Sequence[Request], done: Done) -> None:
        # Kept in an attribute, because the event loop holds tasks only weakly.
        self._committing = asyncio.ensure_future(self._commit_and_report(requests, done))

    async def _commit_and_report(self, requests: Sequence[Request], done: Done) -> None:
        try:
            outcomes: Sequence[Any] | Exception = await self._writer.commit(requests)
        except Exception as error:
            outcomes = error
        done(outcomes)

    async def _read(self, then: Callable[..., T], *queries: Query, is_short: bool = False) -> T:
        """Read, with retries. Every read is made here, so that tests can inject faults."""

        async def call() -> list[Sequence[Row]]:
            if self._is_closed:
                raise StoreError("the store is closed")
            with translated_errors(self._location):
                async with self._tolerance.limit(), self._reader() as connection:
                    if store_faults.plan is not None:
                        # The driver limits the time of a statement, but not the time before it.
                        async with asyncio.timeout(self._timeouts.command_seconds):
                            await begin_call(is_write=False)
                    if len(queries) == 1:
                        return [await fetch(connection, *queries[0])]
                    # One snapshot for all statements, so that a page and its total agree.
                    async with connection.transaction(isolation="repeatable_read", readonly=True):
                        return [await fetch(connection, *query) for query in queries]

        return await decode(then, *await self._tolerance.retry(call))

    @asynccontextmanager
    async def _reader(self) -> AsyncIterator[Reader]:
        """Yield a connection; terminate it on cancellation, for which the driver would wait on the server."""
        async with self._readers.acquire() as connection:
            try:
                yield connection
            except BaseException as error:
                if isinstance(error, (asyncio.CancelledError, *LOST)):
                    connection.terminate()
                raise
