"""Write the changes of operations: records, their dependents, and how many tasks each waits for."""

from collections.abc import Sequence

import asyncpg

from weft.ids import TaskId
from weft.store.columns import STEP_COLUMNS, dependent_rows, step_rows, waiting_for
from weft.store.postgresql.rows import task_row
from weft.store.sql import load_queries
from weft.tasks.decisions import WriteSet
from weft.tasks.record import FIELD_NAMES, Task, method_of

_SQL = load_queries("postgresql")
_ADDED_COLUMNS = (*FIELD_NAMES, "method", "waiting_for", *STEP_COLUMNS)
_DEPENDENT_COLUMNS = ("dependency_id", "task_id", "is_required")


async def write_changes(connection: asyncpg.Connection, changes: Sequence[WriteSet]) -> None:
    """Write the changes of operations that concern different tasks."""
    await _add(connection, [task for one in changes for task in one.added])
    await _update(connection, [task for one in changes for task in one.updated])
    await _delete(connection, [task_id for one in changes for task_id in one.deleted])
    for root_id in (root_id for one in changes for root_id in one.run):
        await connection.execute(_SQL["run_flow"], root_id, True, None)
    recounted = [task_id for one in changes for task_id in one.recounted]
    if recounted:
        await connection.execute(_SQL["recount_references"], recounted)


async def _add(connection: asyncpg.Connection, tasks: Sequence[Task]) -> None:
    if tasks:
        statuses = {task.id: task.status for task in tasks}
        rows = (
            [*task_row(task), method_of(task), waiting_for(task, statuses), *step]
            for task, step in zip(tasks, step_rows(tasks), strict=True)
        )
        await connection.copy_records_to_table("tasks", columns=_ADDED_COLUMNS, records=rows)
        await connection.execute(_SQL["mark_referenced"], list({task.task_tree_id for task in tasks}))
        await add_dependents(connection, list(dependent_rows(tasks)))


async def _update(connection: asyncpg.Connection, tasks: Sequence[Task]) -> None:
    """Write changed records, and recount how many dependencies they and their dependents wait for."""
    if tasks:
        ids = [task.id for task in tasks]
        await connection.execute(_SQL["delete_dependents_of"], ids)
        await connection.executemany(
            _SQL["update_task"], ([*task_row(task), method_of(task)] for task in tasks)
        )
        await add_dependents(connection, list(dependent_rows(tasks)))
        await connection.execute(_SQL["recount_waiting"], ids)


async def _delete(connection: asyncpg.Connection, task_ids: Sequence[TaskId]) -> None:
    if task_ids:
        await connection.execute(_SQL["delete_dependents_of"], task_ids)
        await connection.execute(_SQL["delete_tasks"], task_ids)


async def add_dependents(connection: asyncpg.Connection, rows: Sequence[tuple[TaskId, TaskId, bool]]) -> None:
    """Insert rows of dependency, dependent, and whether it is required."""
    if rows:
        await connection.copy_records_to_table("dependents", columns=_DEPENDENT_COLUMNS, records=rows)
