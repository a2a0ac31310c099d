"""How PostgreSQL represents records and times, and which values it can hold."""

import asyncio
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import asyncpg

from weft.gc_tuning import pause_collector
from weft.ids import is_task_id
from weft.limits import is_storable as is_clean
from weft.store.columns import columns_of, task_of_columns
from weft.store.sql import load_queries
from weft.store.unit_of_work import Dialect, Row
from weft.tasks.record import FIELD_NAMES, TIME_FIELDS, Task

T = TypeVar("T")

SQL = load_queries("postgresql")

MANY_ROWS = 1000
"""From this number on (about 10 ms), rows are decoded in a thread, so that the event loop is not blocked."""

_ID_FIELDS = tuple(
    FIELD_NAMES.index(name) for name in ("id", "parent_id", "original_task_id", "task_tree_id")
)
_ID_PARAMETERS = {
    name: frozenset(int(number) - 1 for number in re.findall(r"\$(\d+)::uuid", text))
    for name, text in SQL.items()
}
"""The positions of parameters that are ids of tasks, or arrays of them."""


def is_stored_form(task_id: str) -> bool:
    """Return whether a stored task could have this id: ids are lowercase and of type `uuid`."""
    return is_task_id(task_id) and task_id == task_id.lower()


def is_storable(text: str | None) -> bool:
    """Return whether PostgreSQL can store the text: it rejects NUL and lone surrogates."""
    return text is None or is_clean(text)


def matching_parameters(name: str, values: Row) -> list[Any] | None:
    """Return the parameters of a statement; None if no stored row can match them.

    PostgreSQL rejects statements with texts that it cannot store, and with ids of another form. Such
    values are left out of lists.
    """
    ids = _ID_PARAMETERS[name]
    parameters: list[Any] = []
    for index, value in enumerate(values):
        can_match = is_stored_form if index in ids else is_storable
        if isinstance(value, str) and not can_match(value):
            return None
        is_list = isinstance(value, list)
        parameters.append(
            [part for part in value if not isinstance(part, str) or can_match(part)] if is_list else value
        )
    return parameters


async def fetch(connection: asyncpg.Connection, name: str, values: Row) -> Sequence[Row]:
    """Return the rows of a statement. Raise ValueError if it inserts a text that cannot be stored."""
    parameters = matching_parameters(name, values)
    if parameters is not None:
        rows: Sequence[Row] = await connection.fetch(SQL[name], *parameters)
        return rows
    if "INSERT INTO" in SQL[name]:
        raise ValueError("a text contains NUL or a lone surrogate")
    return ()


def task_of(row: Row) -> Task:
    values: list[Any] = list(row)
    for index in _ID_FIELDS:
        if values[index] is not None:
            values[index] = str(values[index])
    for index in TIME_FIELDS:
        if values[index] is not None:
            values[index] = with_zone(values[index])
    return task_of_columns(values)


def tasks_of(rows: Sequence[Row]) -> list[Task]:
    return [task_of(row) for row in rows]


async def decode(then: Callable[..., T], *results: Sequence[Row]) -> T:
    """Return what `then` makes of the rows of statements; in a thread if they would block the event loop."""
    if sum(map(len, results)) < MANY_ROWS:
        return then(*results)
    return await asyncio.to_thread(pause_collector()(then), *results)


def with_zone(at: datetime) -> datetime:
    """Return the time in UTC: the driver returns the earliest and latest times without a time zone."""
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


# asyncpg encodes datetimes, booleans and text ids itself.
DIALECT = Dialect(columns_of, task_of, with_zone)
