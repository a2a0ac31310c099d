"""A write transaction while it is open: its connection, and the events it will append to the log."""

import sqlite3
from datetime import datetime
from typing import Any

from weft.store.columns import json_text
from weft.store.protocol import Claim
from weft.store.sql import load_queries
from weft.tasks.events import EventType

SQL = load_queries("sqlite")
_RELEASE = SQL["release_dependents"]


class UnitOfWork:
    """What the parts of a transaction share."""

    def __init__(self, connection: sqlite3.Connection, now: datetime) -> None:
        self.now = now
        """The store's time, read when the transaction held the write lock."""
        self.execute = connection.execute
        self.executemany = connection.executemany
        self.events: list[tuple[Any, ...]] = []
        self.ended: dict[bool, list[int]] = {True: [], False: []}
        """By whether they completed: the tasks that ended and whose dependents still wait for them."""
        self.new_steps: list[list[Any]] = []
        """Rows of steps that are still to be inserted, all with one statement."""
        self.held: set[tuple[str, int]] = set()
        """Tasks and attempts that are known to hold: until something else is written than steps."""

    def tell(self, claim: Claim, kind: EventType, at: int, facts: dict[str, Any]) -> None:
        """Note an event of an attempt."""
        self.events.append((kind, claim.task_id, claim.task_tree_id, claim.user_id, at, json_text(facts)))

    def insert_steps(self) -> None:
        """Insert what is gathered: before anything else is read or written than further steps."""
        if self.new_steps:
            self.executemany(SQL["insert_step"], self.new_steps)
            self.new_steps.clear()

    def release_dependents(self) -> None:
        """Let those go on that waited for what has ended: before anything else is read or written."""
        for is_completed, ended in self.ended.items():
            if ended:
                self.execute(_RELEASE, (json_text(ended), is_completed))
                ended.clear()

    def write_events(self) -> None:
        """Append the events to the log: last, so that their numbers follow the commits."""
        if self.events:
            self.executemany(SQL["insert_event"], self.events)
