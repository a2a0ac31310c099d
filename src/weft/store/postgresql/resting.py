"""Attempts that end without an outcome: the task waits until one of others has ended."""

import asyncpg

from weft.store.attempts import claim_facts, dependencies_at_rest
from weft.store.columns import json_text
from weft.store.postgresql.changes import add_dependents
from weft.store.postgresql.entry import Entry
from weft.store.postgresql.held import may_hold
from weft.store.postgresql.rows import attempt_event_row
from weft.store.protocol import Rest
from weft.store.queries import load_queries
from weft.tasks.events import EventType

_SQL = load_queries("postgresql")


async def rest(connection: asyncpg.Connection, entry: Entry) -> bool:
    """Put the task of an attempt back; whether the claim still held."""
    request: Rest = entry.request
    claim, at, task_id = request.claim, request.at, request.claim.task_id
    guard = (task_id, claim.attempt, claim.worker, claim.user_id)
    if not may_hold(claim):
        return False
    if not await connection.fetchval(_SQL["rest_task"], *guard, at, request.wake_at):
        return False
    has_ended = await connection.fetchval(_SQL["has_ended"], list(request.until))
    dependencies = dependencies_at_rest(request, has_ended=has_ended)
    await connection.execute(_SQL["delete_dependents_of"], [task_id])
    await connection.execute(_SQL["set_dependencies"], task_id, json_text(dependencies))
    await add_dependents(connection, [(one.id, task_id, one.required) for one in dependencies])
    await connection.execute(_SQL["recount_waiting"], [task_id])
    facts = {**claim_facts(claim), "until": request.until}
    entry.events.append(attempt_event_row(claim, EventType.TASK_RESTED, at, facts))
    return True
