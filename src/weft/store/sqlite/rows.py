"""Conversion between SQLite rows and task records, events and schedules."""

from datetime import UTC, datetime, timedelta
from typing import Any

from weft.store.columns import columns_of, json_text, json_value, task_of_columns
from weft.store.protocol import DueSchedule
from weft.tasks.events import Event, EventType, NewEvent
from weft.tasks.record import BOOL_FIELDS, TIME_FIELDS, Task

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(at: datetime) -> int:
    """Return the microseconds since 1970, exactly (a float timestamp would round)."""
    return (at - _EPOCH) // _MICROSECOND


def moment(microseconds: int) -> datetime:
    """Return the time `microseconds` after 1970."""
    return _EPOCH + timedelta(microseconds=microseconds)


def task_row(task: Task) -> list[Any]:
    """Return the record's fields in their order, as SQLite stores them."""
    row = columns_of(task)
    for index in TIME_FIELDS:
        at = row[index]
        if at is not None:
            row[index] = (at - _EPOCH) // _MICROSECOND
    return row


def task_of(row: tuple[Any, ...]) -> Task:
    values = list(row)
    for index in TIME_FIELDS:
        if values[index] is not None:
            values[index] = _EPOCH + timedelta(microseconds=values[index])
    for index in BOOL_FIELDS:
        values[index] = values[index] == 1
    return task_of_columns(values)


def due_schedule_of(row: tuple[Any, ...]) -> DueSchedule:
    task_id, next_run_at, params, has_unfinished_run = row
    return DueSchedule(
        task_id,
        moment(next_run_at),
        None if params is None else json_value(params),
        has_unfinished_run == 1,
    )


def event_row(event: NewEvent) -> tuple[Any, ...]:
    """Return the event's columns, as SQLite stores them."""
    return (
        event.type,
        event.task_id,
        event.task_tree_id,
        event.user_id,
        (event.at - _EPOCH) // _MICROSECOND,
        json_text(event.facts) if event.facts else "{}",
    )


def event_of(row: tuple[Any, ...]) -> Event:
    seq, kind, task_id, task_tree_id, user_id, at, facts = row
    return Event(
        seq=seq,
        type=EventType(kind),
        task_id=task_id,
        task_tree_id=task_tree_id,
        user_id=user_id,
        at=moment(at),
        facts=json_value(facts),
    )
