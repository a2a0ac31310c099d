"""Write transactions: a group of requests, applied as if in order, each with its own outcome."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import chain, groupby
from typing import Any

import asyncpg

from weft.errors import WeftError
from weft.store.errors import StoreError
from weft.store.models import AddTemplates, RemoveTemplate, UpdateParams, WriteSteps
from weft.store.postgresql.attempts import (
    add_worker,
    apply_attempts,
    recover,
    remove_worker,
    restart_delays,
    suspend,
)
from weft.store.postgresql.claims import claim_ready, end_flow, run_flow
from weft.store.postgresql.connection import is_of_one_request, refusal
from weft.store.postgresql.operations import apply_operations
from weft.store.postgresql.rows import EVENT_COLUMNS, Entry, is_storable
from weft.store.postgresql.steps import apply_steps
from weft.store.postgresql.templates import add_templates, remove_template, update_params
from weft.store.protocol import ClaimRequest, Suspension
from weft.store.requests import AddWorker, EndFlow, Operate, Recover, RemoveWorker, RestartDelays, RunFlow

_APPLY_ONE: dict[type[Any], Callable[[asyncpg.Connection, Entry], Awaitable[Any]]] = {
    ClaimRequest: claim_ready,
    RunFlow: run_flow,
    EndFlow: end_flow,
    AddWorker: add_worker,
    RemoveWorker: remove_worker,
    Recover: recover,
    RestartDelays: restart_delays,
    Suspension: suspend,
    AddTemplates: add_templates,
    RemoveTemplate: remove_template,
    UpdateParams: update_params,
}
"""Functions for requests that are applied one by one, after all requests before them."""


async def apply(connection: asyncpg.Connection, entries: Sequence[Entry]) -> None:
    """Set the outcome of every entry, and append the events to the log."""
    for apply_batch, batch in groupby(entries, key=_apply_function):
        await apply_batch(connection, list(batch))
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


def _apply_function(entry: Entry) -> Callable[[asyncpg.Connection, Sequence[Entry]], Awaitable[None]]:
    """Return the function that applies a request together with neighbours of the same kind."""
    if not is_storable(getattr(entry.request, "worker", None)):
        return _refuse
    if isinstance(entry.request, Operate):
        return apply_operations
    if isinstance(entry.request, WriteSteps):
        return apply_steps
    return _apply_in_turn if type(entry.request) in _APPLY_ONE else apply_attempts


async def _apply_in_turn(connection: asyncpg.Connection, entries: Sequence[Entry]) -> None:
    for entry in entries:
        try:
            entry.outcome = await _APPLY_ONE[type(entry.request)](connection, entry)
        except WeftError as error:
            entry.outcome = error


async def _refuse(_connection: asyncpg.Connection, entries: Sequence[Entry]) -> None:
    """Reject requests with a worker name that PostgreSQL cannot store, and that would fail other requests."""
    for entry in entries:
        entry.outcome = StoreError(f"PostgreSQL cannot store the worker name {entry.request.worker!r}")
