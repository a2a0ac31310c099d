"""An open write transaction: its statements, and what is collected to be written together."""

import sqlite3
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TypeVar

from weft.store.columns import json_text
from weft.store.sql import load_queries
from weft.store.sqlite.rows import DIALECT, micros, parameters_of
from weft.store.unit_of_work import Many, Row, Unit, Work

SQL = load_queries("sqlite")
_RELEASE = SQL["release_dependents"]

T = TypeVar("T")


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
