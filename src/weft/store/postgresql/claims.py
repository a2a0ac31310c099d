"""Claim ready tasks by priority and creation order, and mark flows to be run."""

from collections.abc import Sequence

import asyncpg

from weft.ids import TaskId
from weft.store.columns import claim_facts
from weft.store.postgresql.rows import (
    Entry,
    attempt_event_row,
    is_stored_form,
    may_exist,
    tasks_of,
    with_zone,
)
from weft.store.protocol import Claim, Claimed, ClaimRequest, ClaimResult
from weft.store.requests import EndFlow, RunFlow
from weft.store.sql import load_queries
from weft.tasks.events import EventType
from weft.tasks.flow import TaskNotFound
from weft.tasks.record import FIELD_NAMES

_SQL = load_queries("postgresql")
_TASK_COLUMNS = len(FIELD_NAMES)
_HISTORY = slice(_TASK_COLUMNS + 1, _TASK_COLUMNS + 4)


async def claim_ready(connection: asyncpg.Connection, entry: Entry) -> ClaimResult:
    """Claim as many tasks as there are slots: released ones first, then by priority and age."""
    wanted: ClaimRequest = entry.request
    flows = [flow for flow in wanted.flows if is_stored_form(flow)]
    if not flows:
        return ClaimResult()
    claimed, left = await _claim(connection, entry, flows) if wanted.slots > 0 else ((), frozenset())
    for one in claimed:
        facts = claim_facts(one.claim)
        entry.events.append(attempt_event_row(one.claim, EventType.TASK_STARTED, entry.now, facts))
    next_ready_at = await connection.fetchval(_SQL["next_ready_at"], flows, wanted.worker, entry.now)
    return ClaimResult(claimed=claimed, next_ready_at=with_zone(next_ready_at), unknown_methods=left)


async def _claim(
    connection: asyncpg.Connection, entry: Entry, flows: Sequence[TaskId]
) -> tuple[tuple[Claimed, ...], frozenset[str]]:
    """Return the claimed tasks, and the methods that are left to other workers."""
    wanted: ClaimRequest = entry.request
    found = await connection.fetch(
        _SQL["claim_tasks"],
        flows,
        wanted.worker,
        entry.now,
        wanted.slots,
        list(wanted.free.keys()),
        list(wanted.free.values()),
        None if wanted.methods is None else list(wanted.methods),
    )
    rows = [row for row in found if row[0] is not None]
    tasks = await tasks_of([row[:_TASK_COLUMNS] for row in rows])
    claimed = tuple(
        Claimed(
            Claim(task.id, row[_TASK_COLUMNS], wanted.worker, task.task_tree_id or task.id, task.user_id),
            task,
            *row[_HISTORY],
        )
        for task, row in zip(tasks, rows, strict=True)
    )
    return claimed, frozenset(found[0][-1] or ())


async def run_flow(connection: asyncpg.Connection, entry: Entry) -> None:
    """Mark a flow to be run, or undo that. Raise TaskNotFound if it does not exist."""
    request: RunFlow = entry.request
    owner = request.owner
    statement = _SQL["run_flow" if request.is_running else "stop_flow"]
    if may_exist(request.root_id, owner) and await connection.fetch(
        statement, request.root_id, owner.is_everyone, owner.user_id
    ):
        return
    raise TaskNotFound(task_id=request.root_id)


async def end_flow(connection: asyncpg.Connection, entry: Entry) -> bool:
    """Mark a flow as over if none of its tasks can start or is running. Return whether it is over."""
    request: EndFlow = entry.request
    if not is_stored_form(request.root_id):
        return True
    await connection.execute(_SQL["end_flow"], request.root_id)
    return not await connection.fetchval(_SQL["is_running"], request.root_id)
