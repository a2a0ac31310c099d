"""SQLite databases in memory, without files or threads, for stores within one process."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from weft.clock import Clock
from weft.gc_tuning import pause_collector
from weft.store.errors import StoreNotFound
from weft.store.group_commit import Done
from weft.store.sqlite.access import Access
from weft.store.sqlite.commit import try_to_commit
from weft.store.sqlite.connection import add_functions, prepare, translated_errors
from weft.store.unit_of_work import Request

T = TypeVar("T")

UNNAMED = ":memory:"

_named_databases: dict[str, "MemoryDatabase"] = {}
_registry_lock = threading.RLock()


class MemoryDatabase:
    """A database that several stores of this process can share, until the last of them is closed.

    Every read and every transaction runs on one connection without interruption. The lock is for event
    loops in different threads; within one loop nothing ever waits for it.
    """

    def __init__(self, location: str = UNNAMED) -> None:
        self.location = location
        self.lock = threading.Lock()
        self.users = 0
        self.connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False, cached_statements=256
        )
        add_functions(self.connection)
        prepare(self.connection, Path(location))


class MemoryAccess(Access):
    """One store's access to a database in memory; it reads and writes directly in the event loop."""

    renews_with_lock = False

    def __init__(self, database: MemoryDatabase, clock: Clock) -> None:
        self.path = Path(database.location)
        self.clock = clock
        self._database = database
        self._is_open = True
        with _registry_lock:
            database.users += 1

    def commit(self, requests: Sequence[Request], done: Done) -> None:
        with self._database.lock, pause_collector():
            outcomes = try_to_commit(self._database.connection, requests, self.clock, self.path)
        done(outcomes)

    async def read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        # Yield to the event loop, as other stores do: a caller that reads in a loop must not block others.
        await asyncio.sleep(0)
        return self.read_now(read)

    def read_now(self, read: Callable[[sqlite3.Connection], T]) -> T:
        with translated_errors(self.path), self._database.lock:
            return read(self._database.connection)

    async def close(self) -> None:
        with _registry_lock:
            if self._is_open:
                self._is_open = False
                self._database.users -= 1
                if not self._database.users:
                    _named_databases.pop(self._database.location, None)
                    self._database.connection.close()


def open_memory(location: str, clock: Clock, *, must_exist: bool = False) -> MemoryAccess:
    """Open a new database for `:memory:`, or share the open database of this process for `:memory:NAME`."""
    with _registry_lock:
        found = _named_databases.get(location)
        if found is None:
            if must_exist:
                raise StoreNotFound(location=location)
            found = MemoryDatabase(location)
            if location != UNNAMED:
                _named_databases[location] = found
        return MemoryAccess(found, clock)
