"""The connection that writes, and its transactions: one per group of requests."""

import math
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import asyncpg

from weft.clock import Clock
from weft.config.settings import shown_location
from weft.errors import TransientError, WeftError
from weft.fault_points import STORE_APPLIED, STORE_BEGAN, STORE_COMMITTED, StoreFault, hit
from weft.store.errors import StoreError, StoreUnreachable
from weft.store.postgresql.connection import (
    CLOSE_TIMEOUT_SECONDS,
    INJECTED_FAULT,
    LOST,
    Timeouts,
    begin_call,
    connect_writer,
    is_of_one_request,
    translated_errors,
)
from weft.store.postgresql.rows import DIALECT, SQL
from weft.store.postgresql.statements import Entry
from weft.store.postgresql.transaction import ApplyBatch, apply, apply_apart
from weft.store.tolerance import Tolerance
from weft.store.unit_of_work import Request, is_large

OnTime = Callable[[datetime], None]
"""Receives the server's time at the beginning of each transaction."""


class CommitUnknown(StoreError):
    """The connection was lost during a commit, and weft cannot find out whether it succeeded."""

    code = "commit-unknown"

    def __init__(self, *, location: str) -> None:
        super().__init__(
            f"{location}: the connection was lost during a commit, and its outcome is unknown. "
            "Check the state of the task before you try again"
        )


class _OneRefused(Exception):
    """One request of the group was rejected by itself; nothing of the group was written."""


class Writer:
    """Commits groups of requests on a connection that is replaced when it is lost."""

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
        self._transaction_number = 0

    async def commit(self, requests: Sequence[Request]) -> list[Any]:
        """Commit the requests together, and return the value or error of each.

        Raise if nothing was committed. If the connection is lost before the commit, it is replaced
        and the group is written again. If it is lost during the commit, a new connection finds out
        whether it was committed.

        If one request fails by itself, the group is rolled back and written again with one savepoint
        per request, so that the others do not fail with it.
        """
        try:
            return await self._tolerance.retry(lambda: self._commit_group(requests, apply))
        except _OneRefused:
            return await self._tolerance.retry(lambda: self._commit_group(requests, apply_apart))

    async def close(self) -> None:
        # All accepted requests are committed by now, so a lost connection does no harm.
        with suppress(asyncpg.PostgresError, *LOST):
            if self._transaction_number:
                await self._connection.execute(SQL["remove_writer"], self._id, timeout=CLOSE_TIMEOUT_SECONDS)
            await self._connection.close(timeout=CLOSE_TIMEOUT_SECONDS)

    def terminate(self) -> None:
        """Close the connection at once, aborting what runs on it."""
        self._connection.terminate()

    async def _commit_group(self, requests: Sequence[Request], apply: ApplyBatch) -> list[Any]:
        timeouts = self._timeouts
        seconds = timeouts.large_seconds if any(map(is_large, requests)) else timeouts.command_seconds
        with translated_errors(self._location):
            try:
                async with self._tolerance.limit(seconds):
                    fault = await begin_call(is_write=True)
                    connection = await self._begin()
                    now = await self._record_number(connection)
                    entries = [Entry(now, DIALECT, request=request) for request in requests]
                    hit(STORE_BEGAN)
                    await apply(connection, entries)
                    hit(STORE_APPLIED)
            except BaseException as error:
                await self._abort(error)
                if not isinstance(error, WeftError) and _is_refusal(error):
                    raise _OneRefused from error
                raise
        await self._commit(connection, seconds, loses_reply=fault is StoreFault.LOSE_REPLY)
        hit(STORE_COMMITTED)
        return [entry.outcome for entry in entries]

    async def _record_number(self, connection: asyncpg.Connection) -> datetime:
        """Record the number of this transaction in the writer's row, and return the store's time."""
        self._transaction_number += 1
        now = await connection.fetchval(SQL["mark_transaction"], self._id, self._transaction_number)
        self._on_time(now)
        return now if self._clock is None else self._clock.now()

    async def _begin(self) -> asyncpg.Connection:
        """Return the connection, in a transaction that holds the write lock."""
        if not self._connection.is_closed():
            try:
                await self._connection.execute(SQL["begin_write"])
            except LOST:
                # Lost since the last write, perhaps while idle. Nothing was written, so it can be replaced.
                self._connection.terminate()
            else:
                return self._connection
        self._connection = await connect_writer(self._url, self._timeouts)
        await self._connection.execute(SQL["begin_write"])
        return self._connection

    async def _abort(self, error: BaseException) -> None:
        """Roll back; terminate a connection that is lost or cannot roll back."""
        if isinstance(error, LOST) or not isinstance(error, Exception):
            self._connection.terminate()
            return
        try:
            await self._connection.execute("ROLLBACK", timeout=self._timeouts.idle_seconds)
        except Exception:
            self._connection.terminate()

    async def _commit(self, connection: asyncpg.Connection, seconds: float, *, loses_reply: bool) -> None:
        """Commit. If the server's reply is lost, find out whether it has committed; raise if it has not."""
        with translated_errors(self._location):
            try:
                # PostgreSQL replies to the COMMIT of a failed transaction with ROLLBACK, and no error.
                async with self._tolerance.limit(seconds):
                    status = await connection.execute("COMMIT")
                if loses_reply:
                    raise ConnectionResetError(INJECTED_FAULT)
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
        except TransientError as error:  # the process is about to exit
            raise CommitUnknown(location=self._location) from error
        if not is_committed:
            raise StoreUnreachable(f"{self._location}: the connection was lost before the commit")

    async def _is_committed(self) -> bool:
        """Return whether the last transaction was committed, using a new connection.

        Once this connection has the write lock, the transaction has ended. The writer's row, which is
        written atomically with it, holds the number of the last committed transaction.
        """
        with translated_errors(self._location):
            async with self._tolerance.limit(self._timeouts.command_seconds):
                self._connection.terminate()
                self._connection = await connect_writer(self._url, self._timeouts)
                await self._connection.execute(SQL["begin_write"])
                last = await self._connection.fetchval(SQL["last_transaction"], self._id)
                await self._connection.execute("ROLLBACK")
        return bool(last == self._transaction_number)


def _is_refusal(error: BaseException) -> bool:
    return isinstance(error, Exception) and is_of_one_request(error)
