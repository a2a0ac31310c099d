"""Task records and events as SQLite rows, both ways."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from weft.tasks.events import Event, EventType, NewEvent
from weft.tasks.kinds import BOOL_FIELDS, DEPENDENCIES_FIELD, ENUM_FIELDS, JSON_FIELDS, TIME_FIELDS
from weft.tasks.record import FIELD_NAMES, Dependency, Origin, ScheduleType, Status, Task

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ENUMS = {"status": Status, "origin_type": Origin, "schedule_type": ScheduleType}
_ENUM_OF_FIELD = tuple((index, _ENUMS[FIELD_NAMES[index]]) for index in ENUM_FIELDS)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_decode_dependencies = msgspec.json.Decoder(tuple[Dependency, ...]).decode


def micros(at: datetime) -> int:
    """Microseconds since 1970, exactly (a float timestamp would round)."""
    return (at - _EPOCH) // _MICROSECOND


def moment(microseconds: int) -> datetime:
    """The time that many microseconds after 1970."""
    return _EPOCH + timedelta(microseconds=microseconds)


def json_text(value: object) -> str:
    """The value as JSON text."""
    return _encode(value).decode()


def task_row(task: Task) -> list[Any]:
    """The record's fields in their order, as SQLite takes them."""
    row: list[Any] = list(msgspec.structs.astuple(task))
    for index in JSON_FIELDS:
        value = row[index]
        if value is not None:
            row[index] = _encode(value).decode() if value else "{}"
    for index in TIME_FIELDS:
        at = row[index]
        if at is not None:
            row[index] = (at - _EPOCH) // _MICROSECOND
    for index in ENUM_FIELDS:
        member = row[index]
        if member is not None:
            row[index] = member._value_
    dependencies = row[DEPENDENCIES_FIELD]
    row[DEPENDENCIES_FIELD] = _encode(dependencies).decode() if dependencies else "[]"
    return row


def task_of(row: tuple[Any, ...]) -> Task:
    """The record in a row."""
    values = list(row)
    for index in JSON_FIELDS:
        if values[index] is not None:
            values[index] = _decode(values[index])
    for index in TIME_FIELDS:
        if values[index] is not None:
            values[index] = _EPOCH + timedelta(microseconds=values[index])
    for index in BOOL_FIELDS:
        values[index] = values[index] == 1
    for index, enum in _ENUM_OF_FIELD:
        if values[index] is not None:
            values[index] = enum(values[index])
    dependencies = values[DEPENDENCIES_FIELD]
    values[DEPENDENCIES_FIELD] = () if dependencies == "[]" else _decode_dependencies(dependencies)
    return Task(**dict(zip(FIELD_NAMES, values, strict=True)))


def event_row(event: NewEvent) -> tuple[Any, ...]:
    """The event's columns, as SQLite takes them."""
    return (
        event.type,
        event.task_id,
        event.task_tree_id,
        event.user_id,
        (event.at - _EPOCH) // _MICROSECOND,
        json_text(event.facts) if event.facts else "{}",
    )


def event_of(row: tuple[Any, ...]) -> Event:
    """The event in a row."""
    seq, kind, task_id, task_tree_id, user_id, at, facts = row
    return Event(
        seq=seq,
        type=EventType(kind),
        task_id=task_id,
        task_tree_id=task_tree_id,
        user_id=user_id,
        at=moment(at),
        facts=_decode(facts),
    )
