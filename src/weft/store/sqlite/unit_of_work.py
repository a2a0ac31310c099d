"""State of an open write transaction: its statements, and what is collected to be written together."""

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
    """State that the requests of one transaction share."""

    def __init__(self, connection: sqlite3.Connection, now: datetime) -> None:
        self.now = now
        """The store's time, read while the transaction holds the write lock."""
        self.execute = connection.execute
        self.executemany = connection.executemany
        self.events: list[tuple[Any, ...]] = []
        self.ended: dict[bool, list[int]] = {True: [], False: []}
        """The `seq` of tasks that ended and must release their dependents, by whether they completed."""
        self.new_steps: list[list[Any]] = []
        """Rows of steps to be inserted with one statement."""
        self.held: set[tuple[str, int]] = set()
        """Task ids and attempts with a claim that is held; cleared by a request that may change that."""

    def add_event(self, claim: Claim, kind: EventType, at: int, facts: dict[str, Any]) -> None:
        """Collect an event of an attempt."""
        self.events.append((kind, claim.task_id, claim.task_tree_id, claim.user_id, at, json_text(facts)))

    def insert_steps(self) -> None:
        """Insert the collected steps. Must run before other requests read or write tasks."""
        if self.new_steps:
            self.executemany(SQL["insert_step"], self.new_steps)
            self.new_steps.clear()

    def release_dependents(self) -> None:
        """Release the dependents of tasks that ended. Must run before other requests read or write tasks."""
        for is_completed, ended in self.ended.items():
            if ended:
                self.execute(_RELEASE, (json_text(ended), is_completed))
                ended.clear()

    def write_events(self) -> None:
        """Append the collected events to the log, last, so that their numbers follow the order of commits."""
        if self.events:
            self.executemany(SQL["insert_event"], self.events)
