"""Claim ready tasks by priority and creation order."""

import asyncpg

from weft.store.claims import claim_facts
from weft.store.models import Claim, Claimed, ClaimRequest, ClaimResult
from weft.store.postgresql.rows import fetch, task_of, with_zone
from weft.store.unit_of_work import Row, Unit
from weft.tasks.events import EventType
from weft.tasks.record import FIELD_NAMES

_TASK_COLUMNS = len(FIELD_NAMES)
_HISTORY = slice(_TASK_COLUMNS + 1, _TASK_COLUMNS + 4)


async def claim_ready(connection: asyncpg.Connection, unit: Unit, wanted: ClaimRequest) -> ClaimResult:
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
