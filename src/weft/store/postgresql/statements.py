"""Execution of the statements of writes, with as few round trips as possible."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import asyncpg

from weft.errors import WeftError
from weft.ids import TaskId
from weft.store.columns import STEP_COLUMNS
from weft.store.postgresql.rows import SQL, fetch, is_storable, is_stored_form
from weft.store.sql import set_names
from weft.store.unit_of_work import Many, Row, Statement, Unit, Work
from weft.tasks.record import FIELD_NAMES

T = TypeVar("T")

MAX_SET_CHARACTERS = 64 * 1024 * 1024
"""Text above which another statement is begun: PostgreSQL rejects a gigabyte, and it takes memory."""

_SETS = set_names("postgresql")
_COPIES = {
    "insert_task": ("tasks", (*FIELD_NAMES, "method", "waiting_for", *STEP_COLUMNS)),
    "insert_dependent": ("dependents", ("dependency_id", "task_id", "is_required")),
}
"""Table and columns of the rows that are inserted with COPY, which is the fastest way."""


class Entry(Unit, eq=False, kw_only=True):
    """A request of a group, its outcome, and what it collects."""

    request: Any
    """A `weft.store.unit_of_work.Request`."""
    outcome: Any = None
    """The value of the request, or its own error."""


Waiting = dict[str, list[tuple[Entry, Work[Any], Row]]]
"""Writes that wait for a statement, with its parameters, by the name of the statement."""


async def perform(connection: asyncpg.Connection, work: Work[T]) -> T:
    """Execute the statements of a write one after the other, and return its value."""
    try:
        statement = next(work)
        while True:
            statement = work.send(await _execute(connection, statement))
    except StopIteration as end:
        value: T = end.value
        return value


async def perform_together(connection: asyncpg.Connection, entries: Iterable[Entry]) -> None:
    """Set the outcomes of writes of one task each; the same statement of different tasks is executed once.

    Such writes cannot influence each other: the end of a task only makes its dependents ready, and none of
    them depends on that. So the order in which they are applied only matters for the event log, which the
    transaction writes in the order of the requests.
    """
    for wave in _waves(entries):
        waiting: Waiting = {}
        for entry in wave:
            _advance(entry, entry.request.begin(entry), None, waiting)
        while waiting:
            executed, waiting = waiting, {}
            for name, same in executed.items():
                found = await _execute_same(connection, name, [values for _, _, values in same])
                for (entry, work, _), rows in zip(same, found, strict=True):
                    _advance(entry, work, rows, waiting)


def _advance(entry: Entry, work: Work[Any], rows: Any, waiting: Waiting) -> None:
    """Add the next statement of a write to those that wait, or set its outcome if it has ended."""
    try:
        name, values = work.send(rows)  # type: ignore[misc] # writes of one task have no `Many`
    except StopIteration as end:
        entry.outcome = end.value
    except WeftError as error:
        entry.outcome = error
    else:
        waiting.setdefault(name, []).append((entry, work, values))


async def release_dependents(connection: asyncpg.Connection, entries: Iterable[Entry]) -> None:
    """Release the dependents of the tasks that the entries ended."""
    entries = list(entries)
    ended = [(task_id, True) for entry in entries for task_id, _ in entry.completed]
    ended += [(task_id, False) for entry in entries for task_id, _ in entry.unsuccessful]
    if ended:
        await _execute_many(connection, Many("release_dependents", ended))


def _waves(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Split the entries into sets in which no task occurs twice; entries of one task keep their order.

    A statement sees every row as it was before it: of two starts of a task in one set, both would
    succeed.
    """
    waves: list[list[Entry]] = []
    seen: dict[TaskId, int] = {}
    for entry in entries:
        number = seen.get(entry.request.task_id, 0)
        seen[entry.request.task_id] = number + 1
        if number == len(waves):
            waves.append([])
        waves[number].append(entry)
    return waves


async def _execute(connection: asyncpg.Connection, statement: Statement) -> Sequence[Row]:
    if isinstance(statement, Many):
        await _execute_many(connection, statement)
        return ()
    (rows,) = await _execute_same(connection, statement[0], [statement[1]])
    return rows


async def _execute_same(
    connection: asyncpg.Connection, name: str, each: Sequence[Row]
) -> Sequence[Sequence[Row]]:
    """Return the rows of a statement for each of the parameters."""
    if name not in _SETS:
        return [await fetch(connection, name, values) for values in each]
    found: dict[str, list[Row]] = {}
    for portion in _split_by_size(values for values in each if _can_match(values)):
        # The first column of a row is the id of the task that it belongs to.
        for row in await connection.fetch(SQL[name], *zip(*portion, strict=True)):
            found.setdefault(str(row[0]), []).append(row)
    return [found.get(values[0], ()) for values in each]


async def _execute_many(connection: asyncpg.Connection, many: Many) -> None:
    if many.name in _COPIES:
        table, columns = _COPIES[many.name]
        await connection.copy_records_to_table(table, columns=columns, records=many.rows)
    elif many.name in _SETS:
        await connection.execute(SQL[many.name], *zip(*many.rows, strict=True))
    else:
        await connection.executemany(SQL[many.name], many.rows)


def _can_match(values: Row) -> bool:
    """Return whether a stored task can match the id, the claim and the owner in the first parameters."""
    for value in values[1:5]:
        if isinstance(value, str) and not is_storable(value):
            return False
    return is_stored_form(values[0])


def _split_by_size(rows: Iterable[Row]) -> Iterator[list[Row]]:
    portion: list[Row] = []
    characters = 0
    for row in rows:
        portion.append(row)
        for value in row[5:]:  # before it are the id, the claim and the time, which are short
            if isinstance(value, str):
                characters += len(value)
        if characters > MAX_SET_CHARACTERS:
            yield portion
            portion, characters = [], 0
    if portion:
        yield portion
