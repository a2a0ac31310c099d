"""Renewal of leases, on a connection of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta

import asyncpg

from weft.clock import Clock
from weft.config.settings import shown_location
from weft.store.models import Claim
from weft.store.postgresql.connection import (
    CLOSE_TIMEOUT_SECONDS,
    LOST,
    Timeouts,
    begin_call,
    connect_writer,
    translated_errors,
)
from weft.store.postgresql.rows import SQL
from weft.store.workers import claim_of

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
