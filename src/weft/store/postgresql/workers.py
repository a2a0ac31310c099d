"""Workers and their leases. Recovery does one thing: it gives tasks back; the next claim decides."""

from collections.abc import Sequence
from datetime import datetime

import asyncpg

from weft.ids import TaskId
from weft.store.attempts import claim_facts
from weft.store.postgresql.entry import Entry
from weft.store.postgresql.rows import attempt_event_row
from weft.store.protocol import Claim
from weft.store.queries import load_queries
from weft.store.requests import AddWorker, Recover, RemoveWorker, RenewWorker
from weft.tasks.events import EventType

_SQL = load_queries("postgresql")


async def add_worker(connection: asyncpg.Connection, entry: Entry) -> None:
    """Make a worker known."""
    request: AddWorker = entry.request
    await connection.execute(_SQL["add_worker"], request.worker, request.lease_until)


async def renew_worker(connection: asyncpg.Connection, entry: Entry) -> frozenset[Claim] | None:
    """Prolong a worker's lease; the claims it holds, or None when it was taken for dead."""
    request: RenewWorker = entry.request
    if not await connection.fetch(_SQL["renew_worker"], request.worker, request.lease_until):
        return None
    held = await connection.fetch(_SQL["tasks_of_worker"], request.worker)
    return frozenset(map(_claim, held))


async def remove_worker(connection: asyncpg.Connection, entry: Entry) -> int:
    """Forget a worker that leaves, and give back what it held."""
    request: RemoveWorker = entry.request
    return await _give_back_all(connection, entry, [request.worker], request.now, losses=0)


async def recover(connection: asyncpg.Connection, entry: Entry) -> int:
    """Give back what dead workers held: attempts that were lost."""
    request: Recover = entry.request
    dead = {row[0] for row in await connection.fetch(_SQL["dead_workers"], request.now)} | set(request.dead)
    return await _give_back_all(connection, entry, sorted(dead), request.now, losses=1) if dead else 0


async def _give_back_all(
    connection: asyncpg.Connection, entry: Entry, workers: Sequence[str], now: datetime, *, losses: int
) -> int:
    held = await connection.fetch(_SQL["give_back_all"], workers, now, losses)
    for row in sorted(held, key=lambda row: row["seq"]):
        claim = _claim(row)
        entry.events.append(attempt_event_row(claim, EventType.TASK_GIVEN_BACK, now, claim_facts(claim)))
    await connection.execute(_SQL["remove_workers"], workers)
    return len(held)


def _claim(row: asyncpg.Record) -> Claim:
    task_id, attempt, worker, tree, user_id, *_ = row
    return Claim(TaskId(str(task_id)), attempt, worker, TaskId(str(tree)), user_id)
