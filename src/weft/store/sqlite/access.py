"""Access to the database file of a SQLite store: one writer, and readers in threads."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

from weft.clock import Clock
from weft.config.paths import exposure, identity, keep_private
from weft.gc_tuning import pause_collector
from weft.store.errors import StoreNotFound, StoreReplaced, StoreUnreachable
from weft.store.group_commit import Done
from weft.store.sqlite.connection import connect, prepare, translated_errors
from weft.store.sqlite.writer import Writer
from weft.store.unit_of_work import Request

T = TypeVar("T")

_READER_THREADS = 4
"""Enough that a long listing does not delay a short lookup; each reader has its own connection."""


class Access(Protocol):
    """Reads and writes the database of one store. What has a default here concerns only files."""

    path: Path
    """Location of the database, for messages."""
    clock: Clock
    """The store's clock, which transactions read."""
    renews_with_lock: bool
    """Whether a transaction waits for transactions of other processes."""

    def commit(self, requests: Sequence[Request], done: Done) -> None:
        """Commit the requests in one transaction and call `done` in the running event loop."""

    async def read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of `read`, which sees one snapshot."""

    def read_now(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of `read`, which runs one short statement in the event loop."""

    def check(self) -> None:
        """Raise StoreReplaced if the file is no longer the one that was opened."""
        return

    def exposure(self) -> str | None:
        """Return how other users may read the database; None if they cannot."""
        return None

    def stop_waiting(self) -> None:
        """Stop waiting for other processes."""
        return

    async def close(self) -> None:
        """Close the connections. No read or write may be running."""


class FileAccess:
    """A SQLite file with one writer that uses group commit, and readers on their own connections."""

    renews_with_lock = True

    def __init__(
        self, path: Path, clock: Clock, *, synchronous: str, must_exist: bool, is_shared: bool
    ) -> None:
        """Open the file; create it and its folder if they are missing, unless `must_exist`."""
        self._writer = _open_writer(path, synchronous, must_exist=must_exist, is_shared=is_shared)
        self._is_shared = is_shared
        self.path = path
        self.clock = clock
        self._file_identity = _identity(path)
        self._synchronous = synchronous
        self._group_writer = Writer(self._writer, path, clock, waits_for_disk=synchronous == "FULL")
        self.commit = self._group_writer.commit
        self._reader_threads = ThreadPoolExecutor(_READER_THREADS, thread_name_prefix="weft-reader")
        self._thread_local = threading.local()
        self._reader_connections: list[sqlite3.Connection] = []

    async def read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._reader_threads, self._read_in_thread, read)

    def read_now(self, read: Callable[[sqlite3.Connection], T]) -> T:
        with translated_errors(self.path):
            return read(self._reader_connection())

    def check(self) -> None:
        if _identity(self.path) != self._file_identity:
            raise StoreReplaced(location=str(self.path))

    def exposure(self) -> str | None:
        return exposure(self.path, is_shared=self._is_shared)

    def stop_waiting(self) -> None:
        self._group_writer.stop_waiting()

    async def close(self) -> None:
        await asyncio.to_thread(self._close_connections)

    def _close_connections(self) -> None:
        self._group_writer.stop()
        self._reader_threads.shutdown()
        for connection in [*self._reader_connections, self._writer]:
            connection.close()

    @pause_collector()
    def _read_in_thread(self, read: Callable[[sqlite3.Connection], T]) -> T:
        with translated_errors(self.path):
            connection = self._reader_connection()
            # One snapshot for all statements of a read, so that a page and its total agree.
            connection.execute("BEGIN")
            try:
                return read(connection)
            finally:
                connection.execute("COMMIT")

    def _reader_connection(self) -> sqlite3.Connection:
        """Return the connection of the current thread; open it if it is the first read there."""
        connection: sqlite3.Connection | None = getattr(self._thread_local, "connection", None)
        if connection is None:
            connection = connect(self.path, is_reader=True, synchronous=self._synchronous)
            self._thread_local.connection = connection
            self._reader_connections.append(connection)
        return connection


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file, which tell whether it was replaced; None if it is missing."""
    try:
        return identity(path.stat())
    except OSError:
        return None


def _open_writer(path: Path, synchronous: str, *, must_exist: bool, is_shared: bool) -> sqlite3.Connection:
    try:
        if must_exist:
            path.stat()
        keep_private(path, is_shared=is_shared)
    except FileNotFoundError:
        raise StoreNotFound(location=str(path)) from None
    except OSError as error:
        raise StoreUnreachable(f"{path}: {error.strerror}") from error
    with translated_errors(path):
        connection = connect(path, is_reader=False, synchronous=synchronous)
        try:
            prepare(connection, path, must_exist=must_exist)
            # From here on `Writer` waits for locks itself, in its thread and never in the event loop.
            connection.execute("PRAGMA busy_timeout = 0")
        except BaseException:
            connection.close()
            raise
    return connection
