"""The one connection that writes, and its transactions: a group of requests each."""

import math
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import asyncpg

from weft.clock import Clock
from weft.config.settings import shown_location
from weft.errors import TransientError, WeftError
from weft.fault_points import STORE_APPLIED, STORE_BEGAN, STORE_COMMITTED, StoreFault, reach
from weft.store.errors import StoreError, StoreUnreachable
from weft.store.models import AddTemplates
from weft.store.postgresql.connection import (
    CLOSE_TIMEOUT_SECONDS,
    LOST,
    PLANNED,
    Timeouts,
    begin_call,
    connect_writer,
    is_of_one_request,
    translated_errors,
)
from weft.store.postgresql.rows import Entry
from weft.store.postgresql.transaction import apply, apply_apart
from weft.store.requests import Operate, Request
from weft.store.sql import load_queries
from weft.store.tolerance import Tolerance

_SQL = load_queries("postgresql")

Apply = Callable[[asyncpg.Connection, Sequence[Entry]], Awaitable[None]]
OnTime = Callable[[datetime], None]
"""Told the server's time at the beginning of each transaction."""


class CommitUnknown(StoreError):
    """The connection was lost during a commit, and the server cannot tell what became of it."""

    code = "commit-unknown"

    def __init__(self, *, location: str) -> None:
        super().__init__(
            f"{location}: the connection was lost during a commit and its outcome cannot be found out. "
            "Look at the task before you try again"
        )


class _OneRefused(Exception):
    """A request of the group was refused by itself; nothing of the group was written."""


class Writer:
    """Commits groups of requests, over a connection that is replaced when it is lost."""

    def __init__(
        self,
        url: str,
        connection: asyncpg.Connection,
        *,
        timeouts: Timeouts,
        tolerance: Tolerance,
        on_time: OnTime,
        clock: Clock | None = None,
    ) -> None:
        self._url = url
        self._location = shown_location(url)
        self._connection = connection
        self._timeouts = timeouts
        self._tolerance = tolerance
        self._on_time = on_time
        self._clock = clock
        self._id = uuid.uuid4()
        self._number = 0

    async def commit(self, requests: Sequence[Request]) -> list[Any]:
        """The value or error of each request, all committed together.

        Raises when nothing was committed: a connection that is lost before the commit is replaced and the
        group is written again; one that is lost during the commit is replaced to ask what became of it.

        When one request fails by itself, nothing of the group is kept and it is written again with each in a
        savepoint of its own: the others must not fail with it.
        """
        try:
            return await self._tolerance.retry(lambda: self._commit_group(requests, apply))
        except _OneRefused:
            return await self._tolerance.retry(lambda: self._commit_group(requests, apply_apart))

    async def close(self) -> None:
        """Close the connection."""
        # Everything accepted is committed by now: a connection that is lost at this point is no loss.
        with suppress(asyncpg.PostgresError, *LOST):
            if self._number:
                await self._connection.execute(_SQL["remove_writer"], self._id, timeout=CLOSE_TIMEOUT_SECONDS)
            await self._connection.close(timeout=CLOSE_TIMEOUT_SECONDS)

    def terminate(self) -> None:
        """End the connection at once, with whatever runs on it."""
        self._connection.terminate()

    async def _commit_group(self, requests: Sequence[Request], apply: Apply) -> list[Any]:
        is_large = any(isinstance(request, Operate | AddTemplates) for request in requests)
        seconds = self._timeouts.large_seconds if is_large else self._timeouts.command_seconds
        with translated_errors(self._location):
            try:
                async with self._tolerance.limit(seconds):
                    fault = await begin_call(is_write=True)
                    connection = await self._begin()
                    now = await self._mark(connection)
                    entries = [Entry(now, request) for request in requests]
                    reach(STORE_BEGAN)
                    await apply(connection, entries)
                    reach(STORE_APPLIED)
            except BaseException as error:
                await self._abort(error)
                if not isinstance(error, WeftError) and _is_refusal(error):
                    raise _OneRefused from error
                raise
        await self._end(connection, seconds, loses_reply=fault is StoreFault.LOSE_REPLY)
        reach(STORE_COMMITTED)
        return [entry.outcome for entry in entries]

    async def _mark(self, connection: asyncpg.Connection) -> datetime:
        """Number the transaction in a row of this writer, and return the store's time."""
        self._number += 1
        now = await connection.fetchval(_SQL["mark_transaction"], self._id, self._number)
        self._on_time(now)
        return now if self._clock is None else self._clock.now()

    async def _begin(self) -> asyncpg.Connection:
        """The connection, in a transaction that holds the write lock."""
        if not self._connection.is_closed():
            try:
                await self._connection.execute(_SQL["begin_write"])
            except LOST:
                # Lost since the last write, perhaps while idle. Nothing has been written: a new one will do.
                self._connection.terminate()
            else:
                return self._connection
        self._connection = await connect_writer(self._url, self._timeouts)
        await self._connection.execute(_SQL["begin_write"])
        return self._connection

    async def _abort(self, error: BaseException) -> None:
        """Roll back; a connection that is lost, or cannot even do that, is ended."""
        if isinstance(error, LOST) or not isinstance(error, Exception):
            self._connection.terminate()
            return
        try:
            await self._connection.execute("ROLLBACK", timeout=self._timeouts.idle_seconds)
        except Exception:
            self._connection.terminate()

    async def _end(self, connection: asyncpg.Connection, seconds: float, *, loses_reply: bool) -> None:
        """Commit; when the answer is lost, ask what became of the transaction before anybody tries again."""
        with translated_errors(self._location):
            try:
                # PostgreSQL answers the COMMIT of a failed transaction with a rollback, and no error.
                async with self._tolerance.limit(seconds):
                    status = await connection.execute("COMMIT")
                if loses_reply:
                    raise ConnectionResetError(PLANNED)
            except LOST:
                connection.terminate()
            except BaseException:
                connection.terminate()
                raise
            else:
                if status == "COMMIT":
                    return
                raise StoreError(f"{self._location}: the transaction failed and was rolled back")
        try:
            is_committed = await self._tolerance.retry(self._is_committed, seconds=math.inf)
        except TransientError as error:  # the process is about to exit and waits no longer
            raise CommitUnknown(location=self._location) from error
        if not is_committed:
            raise StoreUnreachable(f"{self._location}: the connection was lost before the commit")

    async def _is_committed(self) -> bool:
        """Find out, on a new connection, whether the last transaction was committed.

        Whoever gets the write lock knows that it has ended: its row, which no crash can leave half written,
        says how.
        """
        with translated_errors(self._location):
            async with self._tolerance.limit(self._timeouts.command_seconds):
                self._connection.terminate()
                self._connection = await connect_writer(self._url, self._timeouts)
                await self._connection.execute(_SQL["begin_write"])
                last = await self._connection.fetchval(_SQL["last_transaction"], self._id)
                await self._connection.execute("ROLLBACK")
        return bool(last == self._number)


def _is_refusal(error: BaseException) -> bool:
    return isinstance(error, Exception) and is_of_one_request(error)
