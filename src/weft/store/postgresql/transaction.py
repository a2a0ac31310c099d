"""Write transactions: a group of requests, applied as if in order, each with its own outcome."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import chain, groupby
from typing import Any

import asyncpg

from weft.errors import WeftError
from weft.store.claims import claim_facts
from weft.store.models import Claim, Claimed, ClaimRequest, ClaimResult
from weft.store.postgresql.connection import is_of_one_request, refusal
from weft.store.postgresql.operations import apply_operations
from weft.store.postgresql.rows import fetch, task_of, with_zone
from weft.store.postgresql.statements import Entry, perform, perform_together, release_dependents
from weft.store.steps import write_steps
from weft.store.unit_of_work import EVENT_COLUMNS, Operate, Row, Unit, Write, WriteSteps
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
