"""Claiming what may start, in the order of priority and creation; and which flows are to be run at all."""

import asyncpg

from weft.store.attempts import claim_facts
from weft.store.postgresql.entry import Entry
from weft.store.postgresql.reading import tasks_of
from weft.store.postgresql.rows import attempt_event_row, is_stored_form, may_exist, with_zone
from weft.store.protocol import Claim, Claimed, FlowOutlook, Wanted
from weft.store.queries import load_queries
from weft.store.requests import EndFlow, RunFlow
from weft.tasks.events import EventType
from weft.tasks.flow import TaskNotFound
from weft.tasks.record import FIELD_NAMES

_SQL = load_queries("postgresql")
_WIDTH = len(FIELD_NAMES)


async def claim_ready(connection: asyncpg.Connection, entry: Entry) -> FlowOutlook:
    """Claim as many tasks of the flow as there are slots: given-back ones first, then by priority and age."""
    wanted: Wanted = entry.request
    if not is_stored_form(wanted.flow):
        return FlowOutlook()
    claimed = await _claim(connection, wanted) if wanted.slots > 0 else ()
    for one in claimed:
        facts = claim_facts(one.claim)
        entry.events.append(attempt_event_row(one.claim, EventType.TASK_STARTED, wanted.now, facts))
    ((next_ready_at, in_progress),) = await connection.fetch(_SQL["outlook"], wanted.flow)
    return FlowOutlook(claimed=claimed, next_ready_at=with_zone(next_ready_at), in_progress=in_progress)


async def _claim(connection: asyncpg.Connection, wanted: Wanted) -> tuple[Claimed, ...]:
    rows = await connection.fetch(
        _SQL["claim_tasks"],
        wanted.flow,
        wanted.worker,
        wanted.now,
        wanted.slots,
        list(wanted.free.keys()),
        list(wanted.free.values()),
    )
    tasks = await tasks_of([row[:_WIDTH] for row in rows])
    return tuple(
        Claimed(Claim(task.id, row[_WIDTH], wanted.worker, wanted.flow, task.user_id), task)
        for task, row in zip(tasks, rows, strict=True)
    )


async def run_flow(connection: asyncpg.Connection, entry: Entry) -> None:
    """Ask for a flow to be run, or take that back."""
    request: RunFlow = entry.request
    owner = request.owner
    statement = _SQL["run_flow" if request.is_running else "stop_flow"]
    if may_exist(request.root_id, owner) and await connection.fetch(
        statement, request.root_id, owner.is_everyone, owner.user_id
    ):
        return
    raise TaskNotFound(task_id=request.root_id)


async def end_flow(connection: asyncpg.Connection, entry: Entry) -> bool:
    """Take it back if nothing of the flow can go on by itself."""
    request: EndFlow = entry.request
    return is_stored_form(request.root_id) and bool(await connection.fetch(_SQL["end_flow"], request.root_id))
