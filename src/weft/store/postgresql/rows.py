"""Task records and events as PostgreSQL rows, both ways."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import asyncpg

from weft.ids import TaskId, is_task_id
from weft.store.columns import columns_of, json_text, json_value, task_of_columns
from weft.store.protocol import Claim, DueSchedule, Owner
from weft.tasks.events import Event, EventType, NewEvent
from weft.tasks.kinds import TIME_FIELDS
from weft.tasks.record import FIELD_NAMES, JsonObject, Task

_ID_FIELDS = tuple(
    FIELD_NAMES.index(name) for name in ("id", "parent_id", "original_task_id", "task_tree_id")
)

EVENT_COLUMNS = ("type", "task_id", "task_tree_id", "user_id", "at", "facts")
EventRow = tuple[str, str, str, str | None, datetime, str]

task_row = columns_of
"""The record's fields in their order: asyncpg takes times, truth values and ids in text form as they are."""


def is_stored_form(task_id: str) -> bool:
    """Whether a stored task could have this id: ids are kept in lower case, and as the type `uuid`."""
    return is_task_id(task_id) and task_id == task_id.lower()


def is_storable(text: str | None) -> bool:
    """Whether PostgreSQL can hold the text: it takes no NUL and no half of a surrogate pair."""
    try:
        return text is None or b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def may_exist(task_id: TaskId, owner: Owner) -> bool:
    """Whether the owner could have such a task; PostgreSQL refuses, with all else in the statement, what it
    cannot hold."""
    return is_stored_form(task_id) and is_storable(owner.user_id)


def task_of(row: Iterable[Any]) -> Task:
    """The record in a row."""
    values: list[Any] = list(row)
    for index in _ID_FIELDS:
        if values[index] is not None:
            values[index] = str(values[index])
    for index in TIME_FIELDS:
        values[index] = with_zone(values[index])
    return task_of_columns(values)


def with_zone(at: datetime | None) -> datetime | None:
    """The time with its zone: the driver keeps the first and the last possible one as infinities without."""
    return at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at


def due_schedule_of(row: asyncpg.Record) -> DueSchedule:
    """The due schedule in a row."""
    task_id, next_run_at, params, has_unfinished_run = row
    return DueSchedule(
        TaskId(str(task_id)),
        next_run_at,
        None if params is None else json_value(params),
        has_unfinished_run,
    )


def event_row(event: NewEvent) -> EventRow:
    """The event's columns."""
    return (
        event.type.value,
        event.task_id,
        event.task_tree_id,
        event.user_id,
        event.at,
        json_text(event.facts) if event.facts else "{}",
    )


def attempt_event_row(claim: Claim, kind: EventType, at: datetime, facts: JsonObject) -> EventRow:
    """The columns of an event about a claimed attempt."""
    return (kind.value, claim.task_id, claim.task_tree_id, claim.user_id, at, json_text(facts))


def event_of(row: asyncpg.Record) -> Event:
    """The event in a row."""
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
