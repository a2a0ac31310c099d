"""Reading tasks and flows on a connection, for readers and write transactions alike."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import asyncpg

from weft.collector import paused_collector
from weft.ids import TaskId
from weft.store.postgresql.rows import may_exist, task_of
from weft.store.protocol import Owner
from weft.store.queries import load_queries
from weft.tasks.flow import Flow
from weft.tasks.record import Task

_SQL = load_queries("postgresql")

MANY_ROWS = 1000
"""From here on (some 10 ms) rows become records in a thread, so that the event loop goes on meanwhile."""


async def read_tasks(
    connection: asyncpg.Connection | asyncpg.Pool, wanted: Sequence[tuple[TaskId, Owner]]
) -> dict[TaskId, Task]:
    """Those of the tasks that exist, each on behalf of its owner; no task is wanted twice."""
    rows = [
        (task_id, owner.is_everyone, owner.user_id) for task_id, owner in wanted if may_exist(task_id, owner)
    ]
    if not rows:
        return {}
    found = await connection.fetch(_SQL["get_tasks"], *zip(*rows, strict=True))
    return {task.id: task for task in await tasks_of(found)}


async def read_flow(
    connection: asyncpg.Connection | asyncpg.Pool, task_id: TaskId, owner: Owner, limit: int | None = None
) -> Flow:
    """The flow a task is in, all of it or its first tasks; empty when there is no such task."""
    if not may_exist(task_id, owner):
        return Flow([])
    rows = await connection.fetch(_SQL["get_flow"], task_id, owner.is_everyone, owner.user_id, limit)
    return Flow(await tasks_of(rows))


async def read_with_unfinished_runs(
    connection: asyncpg.Connection, task_ids: Sequence[TaskId], owner: Owner
) -> frozenset[TaskId]:
    """Those of the tasks from which a flow was made, on behalf of the owner, that is still to be run."""
    ids = [task_id for task_id in task_ids if may_exist(task_id, owner)]
    if not ids:
        return frozenset()
    rows = await connection.fetch(_SQL["with_unfinished_runs"], ids, owner.is_everyone, owner.user_id)
    return frozenset(TaskId(str(row["id"])) for row in rows)


async def tasks_of(rows: Sequence[Iterable[Any]]) -> list[Task]:
    """The records in the rows."""
    if len(rows) < MANY_ROWS:
        return [task_of(row) for row in rows]
    return await asyncio.to_thread(_many_tasks_of, rows)


@paused_collector()
def _many_tasks_of(rows: Sequence[Iterable[Any]]) -> list[Task]:
    return [task_of(row) for row in rows]
