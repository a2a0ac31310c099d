"""The connection that writes, and its transactions: one per group of requests."""

import math
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import chain, groupby
from typing import Any

import asyncpg

from weft.clock import Clock
from weft.config.settings import shown_location
from weft.errors import TransientError, WeftError
from weft.fault_points import STORE_APPLIED, STORE_BEGAN, STORE_COMMITTED, StoreFault, hit
from weft.store.claims import claim_facts
from weft.store.errors import StoreError, StoreUnreachable
from weft.store.models import Claim, Claimed, ClaimRequest, ClaimResult
from weft.store.postgresql.connection import (
    CLOSE_TIMEOUT_SECONDS,
    INJECTED_FAULT,
    LOST,
    Timeouts,
    begin_call,
    connect_writer,
    is_of_one_request,
    refusal,
    translated_errors,
)
from weft.store.postgresql.operations import apply_operations
from weft.store.postgresql.rows import DIALECT, SQL, fetch, task_of, with_zone
from weft.store.postgresql.statements import Entry, perform, perform_together, release_dependents
from weft.store.steps import write_steps
from weft.store.tolerance import Tolerance
from weft.store.unit_of_work import (
    EVENT_COLUMNS,
    Operate,
    Request,
    Row,
    Unit,
    Write,
    WriteSteps,
    is_large,
)
from weft.tasks.events import EventType
from weft.tasks.record import FIELD_NAMES

_TASK_COLUMNS = len(FIELD_NAMES)
_HISTORY = slice(_TASK_COLUMNS + 1, _TASK_COLUMNS + 4)

ApplyBatch = Callable[[asyncpg.Connection, Sequence[Entry]], Awaitable[None]]


async def apply(connection: asyncpg.Connection, entries: Sequence[Entry]) -> None:
    """Set the outcome of every entry, and append the events to the log."""
    for apply_batch, batch in groupby(entries, key=_apply_function):
        together = list(batch)
        await apply_batch(connection, together)
        await release_dependents(connection, together)
    events = list(chain.from_iterable(entry.events for entry in entries))
    if events:
        await connection.copy_records_to_table("events", columns=EVENT_COLUMNS, records=events)


async def apply_apart(connection: asyncpg.Connection, entries: Sequence[Entry]) -> None:
    """Apply each entry in its own savepoint: slower, but a failed request leaves no trace."""
    for entry in entries:
        await connection.execute("SAVEPOINT request")
        try:
            await apply(connection, [entry])
        except Exception as error:
            if not is_of_one_request(error):
                raise
            await connection.execute("ROLLBACK TO request")
            entry.outcome = refusal(error)
        await connection.execute("RELEASE request")


def _apply_function(entry: Entry) -> ApplyBatch:
    """Return the function that applies a request together with neighbours of the same kind."""
    request = entry.request
    if isinstance(request, Write):
        return _apply_in_turn if request.task_id is None else perform_together
    if isinstance(request, Operate):
        return apply_operations
    return _apply_steps if isinstance(request, WriteSteps) else _apply_in_turn


async def _apply_in_turn(connection: asyncpg.Connection, entries: Sequence[Entry]) -> None:
    for entry in entries:
        request = entry.request
        try:
            if isinstance(request, ClaimRequest):
                entry.outcome = await _claim_ready(connection, entry, request)
            else:
                entry.outcome = await perform(connection, request.begin(entry))
        except WeftError as error:
            entry.outcome = error


async def _apply_steps(connection: asyncpg.Connection, entries: Sequence[Entry]) -> None:
    """Apply requests to write steps; those of one run are written together."""
    for _, same in groupby(entries, key=lambda entry: entry.request.run):
        together = list(same)
        work = write_steps(together[0], [entry.request for entry in together])
        try:
            outcomes: Sequence[Any] = await perform(connection, work)
        except WeftError as error:
            outcomes = [error] * len(together)
        for entry, outcome in zip(together, outcomes, strict=True):
            entry.outcome = outcome


async def _claim_ready(connection: asyncpg.Connection, unit: Unit, wanted: ClaimRequest) -> ClaimResult:
    """Claim as many tasks as there are slots: released ones first, then by priority and age."""
    if not wanted.flows:
        return ClaimResult()
    flows = list(wanted.flows)
    claimed: tuple[Claimed, ...] = ()
    left: frozenset[str] = frozenset()
    if wanted.slots > 0:
        limits = list(wanted.free.keys()), list(wanted.free.values())
        known = None if wanted.methods is None else list(wanted.methods)
        rows = await fetch(
            connection, "claim_tasks", (flows, wanted.worker, unit.now, wanted.slots, *limits, known)
        )
        claimed = tuple(_claimed(row, wanted.worker) for row in rows if row[0] is not None)
        left = frozenset((rows[0][-1] if rows else None) or ())
    for one in claimed:
        unit.add_event(one.claim, EventType.TASK_STARTED, unit.now, claim_facts(one.claim))
    delayed = await fetch(connection, "next_ready_at", (flows, wanted.worker, unit.now))
    next_ready_at = delayed[0][0] if delayed else None
    return ClaimResult(
        claimed=claimed,
        next_ready_at=None if next_ready_at is None else with_zone(next_ready_at),
        unknown_methods=left,
    )


def _claimed(row: Row, worker: str) -> Claimed:
    task = task_of(row[:_TASK_COLUMNS])
    claim = Claim(task.id, row[_TASK_COLUMNS], worker, task.task_tree_id or task.id, task.user_id)
    return Claimed(claim, task, *row[_HISTORY])


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
