"""The one connection that writes, and its transactions: a group of requests each."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import asyncpg

from weft.errors import WeftError
from weft.faults import STORE_APPLIED, STORE_BEGAN, STORE_COMMITTED, reach
from weft.settings import shown_location
from weft.store.errors import StoreError
from weft.store.postgresql.connection import (
    CLOSE_TIMEOUT_SECONDS,
    LOST,
    connect_writer,
    is_of_one_request,
    translated_errors,
)
from weft.store.postgresql.entry import Entry
from weft.store.postgresql.transaction import apply, apply_apart
from weft.store.queries import load_queries
from weft.store.requests import Request

_SQL = load_queries("postgresql")

Apply = Callable[[asyncpg.Connection, Sequence[Entry]], Awaitable[None]]


class Writer:
    """Commits groups of requests, over a connection that is made anew when it is lost."""

    def __init__(self, url: str, connection: asyncpg.Connection) -> None:
        self._url = url
        self._location = shown_location(url)
        self._connection = connection

    async def commit(self, requests: Sequence[Request]) -> list[Any]:
        """The value or error of each request, all committed together.

        Raises when nothing was committed, or when the connection was lost in the commit and nobody knows. A
        second try spoils nothing, but only conditional writes notice it: a copy may be made twice.

        When one request fails by itself, nothing of the group is kept and it is written anew with each in a
        savepoint of its own: the others must not fail with it.
        """
        with translated_errors(self._location):
            try:
                return await self._commit_group(requests, apply)
            except Exception as error:
                if isinstance(error, WeftError) or not is_of_one_request(error):
                    raise
            return await self._commit_group(requests, apply_apart)

    async def _commit_group(self, requests: Sequence[Request], apply: Apply) -> list[Any]:
        connection = await self._begin()
        entries = [Entry(request) for request in requests]
        try:
            reach(STORE_BEGAN)
            await apply(connection, entries)
            reach(STORE_APPLIED)
            await _commit(connection)
        except BaseException:
            await _roll_back(connection)
            raise
        reach(STORE_COMMITTED)
        return [entry.outcome for entry in entries]

    async def close(self) -> None:
        """Let go of the connection."""
        # Everything accepted is committed by now: a connection that is lost at this point is no loss.
        with suppress(*LOST):
            await self._connection.close(timeout=CLOSE_TIMEOUT_SECONDS)

    async def _begin(self) -> asyncpg.Connection:
        """The connection, in a transaction that holds the write lock."""
        if not self._connection.is_closed():
            try:
                return await _begun(self._connection)
            except LOST:
                # Lost since the last write, perhaps while idle. Nothing has been written: a new one will do.
                self._connection.terminate()
        self._connection = await connect_writer(self._url)
        return await _begun(self._connection)


async def _begun(connection: asyncpg.Connection) -> asyncpg.Connection:
    try:
        await connection.execute(_SQL["begin_write"])
    except BaseException:
        await _roll_back(connection)
        raise
    return connection


async def _commit(connection: asyncpg.Connection) -> None:
    # PostgreSQL answers the COMMIT of a failed transaction with a rollback, and no error.
    if await connection.execute("COMMIT") != "COMMIT":
        raise StoreError("the transaction failed and was rolled back")


async def _roll_back(connection: asyncpg.Connection) -> None:
    """End the transaction; when that fails too, the connection, so that the next write makes a new one."""
    try:
        await connection.execute("ROLLBACK")
    except Exception:
        connection.terminate()
