"""Steps of runs in PostgreSQL, written only while the attempt at the run's task is held."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

import asyncpg

from weft.ids import TaskId
from weft.store.columns import STEP_COLUMNS, json_text, step_events
from weft.store.models import Run, StepChange
from weft.store.postgresql.rows import Entry, EventRow, event_row, is_storable, is_stored_form, task_row
from weft.store.sql import load_queries
from weft.tasks.events import EventType
from weft.tasks.record import FIELD_NAMES, Status, method_of
from weft.tasks.steps import ENDED_WITH_RUN, ENDED_WITH_STEP

_SQL = load_queries("postgresql")
_ADDED_COLUMNS = (*FIELD_NAMES, "method", "waiting_for", *STEP_COLUMNS)
_UPDATED_FIELDS = tuple(
    FIELD_NAMES.index(name)
    for name in (
        "status", "result", "error", "progress", "params", "started_at", "completed_at", "updated_at",
        "origin_type", "original_task_id",
    )
)  # fmt: skip


async def apply_steps(connection: asyncpg.Connection, entries: Sequence[Entry]) -> None:
    """Set the outcome of every request to write steps; requests of one run are written together."""
    for run, together in groupby(entries, key=lambda entry: entry.request.run):
        await _write_steps(connection, run, list(together))


async def _write_steps(connection: asyncpg.Connection, run: Run, entries: Sequence[Entry]) -> None:
    """Set the outcomes: the ids of steps that had already ended; None if the claim is no longer held."""
    if not is_stored_form(run.task_id) or not is_storable(run.user_id):
        return
    if not await connection.fetchval(_SQL["holds_run"], run.task_id, run.attempt):
        return
    changes = [change for entry in entries for change in entry.request.changes]
    await _insert(connection, run, [change for change in changes if change.is_new])
    changed = [change for change in changes if not change.is_new and not change.is_params_only]
    refused = {id(change) for change in changed if not await _update(connection, run, change)}
    written = [change for change in changes if id(change) not in refused and not change.is_params_only]
    for change in changes:
        if change.is_params_only:
            params = json_text(change.task.params)
            await connection.execute(_SQL["mark_step"], params, change.task.id, run.task_id)
    await _mark_parents_and_sources(connection, written)
    await _release_dependents(connection, [change for change in written if not change.is_new])
    below = await _end_below(connection, run, written)
    for entry in entries:
        own = entry.request.changes
        entry.outcome = frozenset(change.task.id for change in own if id(change) in refused)
        entry.events.extend(
            event_row(event) for change in own if id(change) not in refused for event in step_events(change)
        )
    entries[-1].events.extend(below)


async def end_open_steps(
    connection: asyncpg.Connection, ended: Mapping[TaskId, datetime]
) -> dict[TaskId, list[EventRow]]:
    """End the open steps of tasks that have ended, and return the events of each task's steps."""
    ids, times = list(ended), list(ended.values())
    rows = await connection.fetch(_SQL["end_open_steps"], ids, times, ENDED_WITH_RUN)
    found: dict[TaskId, list[EventRow]] = {}
    for row, event in zip(rows, await _record_ended(connection, rows, ENDED_WITH_RUN), strict=True):
        found.setdefault(TaskId(str(row["step_of"])), []).append(event)
    return found


async def _end_below(
    connection: asyncpg.Connection, run: Run, changes: Sequence[StepChange]
) -> list[EventRow]:
    """End the open steps below steps that end."""
    ended = [(one.key, one.task.completed_at) for one in changes if one.has_steps and one.task.completed_at]
    if not ended:
        return []
    keys, times = zip(*ended, strict=True)
    rows = await connection.fetch(_SQL["end_steps_below"], run.task_id, keys, times, ENDED_WITH_STEP)
    return await _record_ended(connection, rows, ENDED_WITH_STEP)


async def _record_ended(
    connection: asyncpg.Connection, rows: list[asyncpg.Record], error: str
) -> list[EventRow]:
    """Release the dependents of ended steps, and return their events in creation order."""
    rows.sort(key=lambda row: row["seq"])
    if rows:
        ids = [row["id"] for row in rows]
        await connection.execute(_SQL["release_dependents"], ids, [False] * len(ids))
    facts, kind = json_text({"error": error}), EventType.TASK_CANCELLED.value
    return [
        (kind, str(row["id"]), str(row["task_tree_id"]), row["user_id"], row["completed_at"], facts)
        for row in rows
    ]


async def _insert(connection: asyncpg.Connection, run: Run, changes: Sequence[StepChange]) -> None:
    if changes:
        rows = [
            [
                *task_row(change.task),
                method_of(change.task),
                0,
                run.task_id,
                change.key,
                change.input_hash,
                change.reuse_hash,
            ]
            for change in changes
        ]
        await connection.copy_records_to_table("tasks", columns=_ADDED_COLUMNS, records=rows)


async def _update(connection: asyncpg.Connection, run: Run, change: StepChange) -> bool:
    row = task_row(change.task)
    values: list[Any] = [row[index] for index in _UPDATED_FIELDS]
    found = await connection.fetchval(
        _SQL["update_step"],
        change.task.id,
        run.task_id,
        *values,
        change.input_hash,
        change.reuse_hash,
        change.is_outcome_used,
    )
    return found is not None


async def _mark_parents_and_sources(connection: asyncpg.Connection, changes: Sequence[StepChange]) -> None:
    parents = [change.task.parent_id for change in changes if change.is_first_child]
    if parents:
        await connection.execute(_SQL["mark_parents"], parents)
    sources = [change.task.original_task_id for change in changes if change.task.original_task_id]
    if sources:
        await connection.execute(_SQL["mark_reused"], sources)


async def _release_dependents(connection: asyncpg.Connection, changes: Sequence[StepChange]) -> None:
    """Release the tasks that are suspended until one of these steps ends."""
    rows = [
        (change.task.id, change.task.status is Status.COMPLETED)
        for change in changes
        if change.task.status is not Status.IN_PROGRESS
    ]
    if rows:
        await connection.execute(_SQL["release_dependents"], *zip(*rows, strict=True))
