"""Conversion between PostgreSQL rows and task records, events and schedules."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import asyncpg
from msgspec import Struct, field

from weft.gc_tuning import pause_collector
from weft.ids import TaskId, is_task_id
from weft.store.columns import columns_of, json_text, json_value, task_of_columns
from weft.store.protocol import Claim, DueSchedule, Owner
from weft.store.sql import load_queries
from weft.tasks.events import Event, EventType, NewEvent
from weft.tasks.flow import Flow
from weft.tasks.record import FIELD_NAMES, TIME_FIELDS, JsonObject, Task
from weft.text import is_storable as is_clean

_ID_FIELDS = tuple(
    FIELD_NAMES.index(name) for name in ("id", "parent_id", "original_task_id", "task_tree_id")
)

EVENT_COLUMNS = ("type", "task_id", "task_tree_id", "user_id", "at", "facts")
EventRow = tuple[str, str, str, str | None, datetime, str]

task_row = columns_of
"""Returns the record's fields in their order; asyncpg encodes datetimes, booleans and text ids itself."""


def is_stored_form(task_id: str) -> bool:
    """Return whether a stored task could have this id: ids are lowercase and of type `uuid`."""
    return is_task_id(task_id) and task_id == task_id.lower()


def is_storable(text: str | None) -> bool:
    """Return whether PostgreSQL can store the text: it rejects NUL and lone surrogates."""
    return text is None or is_clean(text)


def may_exist(task_id: TaskId, owner: Owner) -> bool:
    """Return whether the owner could have such a task; PostgreSQL rejects statements with other values."""
    return is_stored_form(task_id) and is_storable(owner.user_id)


def task_of(row: Iterable[Any]) -> Task:
    values: list[Any] = list(row)
    for index in _ID_FIELDS:
        if values[index] is not None:
            values[index] = str(values[index])
    for index in TIME_FIELDS:
        values[index] = with_zone(values[index])
    return task_of_columns(values)


def with_zone(at: datetime | None) -> datetime | None:
    """Return the time in UTC: the driver returns the earliest and latest times without a time zone."""
    return at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at


def due_schedule_of(row: asyncpg.Record) -> DueSchedule:
    task_id, next_run_at, params, has_unfinished_run = row
    return DueSchedule(
        TaskId(str(task_id)),
        next_run_at,
        None if params is None else json_value(params),
        has_unfinished_run,
    )


def event_row(event: NewEvent) -> EventRow:
    return (
        event.type.value,
        event.task_id,
        event.task_tree_id,
        event.user_id,
        event.at,
        json_text(event.facts) if event.facts else "{}",
    )


def attempt_event_row(claim: Claim, kind: EventType, at: datetime, facts: JsonObject) -> EventRow:
    return (kind.value, claim.task_id, claim.task_tree_id, claim.user_id, at, json_text(facts))


def event_of(row: asyncpg.Record) -> Event:
    seq, kind, task_id, task_tree_id, user_id, at, facts = row
    return Event(
        seq=seq,
        type=EventType(kind),
        task_id=TaskId(str(task_id)),
        task_tree_id=TaskId(str(task_tree_id)),
        user_id=user_id,
        at=at,
        facts=json_value(facts),
    )


_SQL = load_queries("postgresql")

MANY_ROWS = 1000
"""From this number on (about 10 ms), rows are decoded in a thread, so that the event loop is not blocked."""


async def read_tasks(
    connection: asyncpg.Connection | asyncpg.Pool, wanted: Sequence[tuple[TaskId, Owner]]
) -> dict[TaskId, Task]:
    """Return the tasks that exist, each for its owner. No id may occur twice."""
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
    """Return the flow that contains a task, or its first `limit` tasks; empty if the task does not exist."""
    if not may_exist(task_id, owner):
        return Flow([])
    rows = await connection.fetch(_SQL["get_flow"], task_id, owner.is_everyone, owner.user_id, limit)
    return Flow(await tasks_of(rows))


async def read_with_unfinished_runs(
    connection: asyncpg.Connection, task_ids: Sequence[TaskId], owner: Owner
) -> frozenset[TaskId]:
    """Return the tasks from which a flow of the owner was copied that is still running."""
    ids = [task_id for task_id in task_ids if may_exist(task_id, owner)]
    if not ids:
        return frozenset()
    rows = await connection.fetch(_SQL["with_unfinished_runs"], ids, owner.is_everyone, owner.user_id)
    return frozenset(TaskId(str(row["id"])) for row in rows)


async def tasks_of(rows: Sequence[Iterable[Any]]) -> list[Task]:
    if len(rows) < MANY_ROWS:
        return [task_of(row) for row in rows]
    return await asyncio.to_thread(_many_tasks_of, rows)


@pause_collector()
def _many_tasks_of(rows: Sequence[Iterable[Any]]) -> list[Task]:
    return [task_of(row) for row in rows]


class Entry(Struct, eq=False):
    """A request of a group, its outcome, and the events it appends to the log."""

    now: datetime
    """The store's time, read while the transaction holds the write lock."""
    request: Any
    """A `weft.store.requests.Request`."""
    outcome: Any = None
    """The value of the request, or its own error."""
    events: list[EventRow] = field(default_factory=list)
