"""An open write transaction, and how SQLite stores records: times as microseconds, lists as JSON texts."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from weft.store.columns import columns_of, json_text, task_of_columns
from weft.store.sql import load_queries
from weft.store.unit_of_work import Dialect, Many, Row, Unit, Work
from weft.tasks.record import BOOL_FIELDS, TIME_FIELDS, Task

SQL = load_queries("sqlite")
_RELEASE = SQL["release_dependents"]

T = TypeVar("T")

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


class Transaction:
    """State that the requests of one transaction share."""

    def __init__(self, connection: sqlite3.Connection, now: datetime) -> None:
        self.unit = Unit(now, DIALECT)
        self.now = micros(now)
        self.execute = connection.execute
        self.executemany = connection.executemany
        self._inserted: list[str] = []
        """The ids of the tasks that were inserted last."""

    def perform(self, work: Work[T]) -> T:
        """Execute the statements of a write, and return its value."""
        execute = self.execute
        try:
            statement = next(work)
            while True:
                if isinstance(statement, Many):
                    self._perform_many(statement)
                    statement = work.send(())
                else:
                    name, values = statement
                    statement = work.send(execute(SQL[name], parameters_of(values)).fetchall())
        except StopIteration as end:
            value: T = end.value
            return value

    def _perform_many(self, many: Many) -> None:
        if many.name == "insert_dependent":
            self.executemany(SQL["insert_dependent_of_seq"], self._dependents_of_seqs(many.rows))
        elif many.name == "insert_task":
            self._inserted = []
            self.executemany(SQL["insert_task"], self._note_ids(many.rows))
        else:
            self.executemany(SQL[many.name], many.rows)

    def _note_ids(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            self._inserted.append(row[0])
            yield row

    def _dependents_of_seqs(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield rows of tasks that were just inserted, with `seq` for ids: it was counted, not looked up."""
        (last,) = self.execute(SQL["last_seq"]).fetchone()
        seqs = {task_id: seq for seq, task_id in enumerate(self._inserted, last + 1 - len(self._inserted))}
        for dependency, dependent, is_required in rows:
            yield seqs[dependency], seqs[dependent], is_required

    def release_dependents(self) -> None:
        """Release the dependents of tasks that ended. Must run before other requests read or write tasks."""
        unit = self.unit
        for ended, is_completed in ((unit.completed, True), (unit.unsuccessful, False)):
            if ended:
                self.execute(_RELEASE, (json_text([seq for _, seq in ended]), is_completed))
                ended.clear()

    def write_events(self) -> None:
        """Append the collected events to the log, last, so that their numbers follow the order of commits."""
        if events := self.unit.events:
            rows = [
                (kind, task, tree, user, micros(at), facts) for kind, task, tree, user, at, facts in events
            ]
            self.executemany(SQL["insert_event"], rows)
