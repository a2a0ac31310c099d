"""Write transactions: a group of requests, applied as if in order, each with its own outcome."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import chain, groupby

import asyncpg

from weft.errors import WeftError
from weft.store.models import ClaimRequest
from weft.store.postgresql.claims import claim_ready
from weft.store.postgresql.connection import is_of_one_request, refusal
from weft.store.postgresql.operations import apply_operations
from weft.store.postgresql.statements import Entry, perform, perform_together, release_dependents
from weft.store.steps import write_steps
from weft.store.unit_of_work import EVENT_COLUMNS, Operate, Write, WriteSteps

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
                entry.outcome = await claim_ready(connection, entry, request)
            else:
                entry.outcome = await perform(connection, request.begin(entry))
        except WeftError as error:
            entry.outcome = error


async def _apply_steps(connection: asyncpg.Connection, entries: Sequence[Entry]) -> None:
    """Apply requests to write steps; those of one run are written together."""
    for _, same in groupby(entries, key=lambda entry: entry.request.run):
        together = list(same)
        work = write_steps(together[0], [entry.request for entry in together])
        for entry, outcome in zip(together, await perform(connection, work), strict=True):
            entry.outcome = outcome
