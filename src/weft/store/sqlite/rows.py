"""How SQLite represents records and times: times are microseconds since 1970, lists are JSON texts."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from weft.store.columns import columns_of, json_text, task_of_columns
from weft.store.unit_of_work import Dialect, Row
from weft.tasks.record import BOOL_FIELDS, TIME_FIELDS, Task

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(at: datetime) -> int:
    """Return the microseconds since 1970, exactly (a float timestamp would round)."""
    return (at - _EPOCH) // _MICROSECOND


def moment(microseconds: int) -> datetime:
    """Return the time `microseconds` after 1970."""
    return _EPOCH + timedelta(microseconds=microseconds)


def parameters_of(values: Row) -> list[Any]:
    """Return the parameters of a statement, as SQLite stores them."""
    return [
        (value - _EPOCH) // _MICROSECOND
        if type(value) is datetime
        else json_text(value)
        if type(value) is list
        else value
        for value in values
    ]


def task_row(task: Task) -> list[Any]:
    """Return the record's fields in their order, as SQLite stores them."""
    row = columns_of(task)
    for index in TIME_FIELDS:
        at = row[index]
        if at is not None:
            row[index] = (at - _EPOCH) // _MICROSECOND
    return row


def task_of(row: Sequence[Any]) -> Task:
    values = list(row)
    for index in TIME_FIELDS:
        if values[index] is not None:
            values[index] = _EPOCH + timedelta(microseconds=values[index])
    for index in BOOL_FIELDS:
        values[index] = values[index] == 1
    return task_of_columns(values)


DIALECT = Dialect(task_row, task_of, moment)
