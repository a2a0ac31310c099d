"""Connections to a SQLite file: settings, migrations, and translation of SQLite's errors."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weft.errors import WeftError
from weft.store.errors import (
    NotAStore,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
)
from weft.store.sql import is_current, load_migrations

APPLICATION_ID = 0x77656674
"""The letters "weft", which mark a file as a weft store."""

SHORTEST_DATABASE = 512
"""Size in bytes of SQLite's smallest page; a shorter file is not a database."""

BUSY_TIMEOUT_SECONDS = 30.0
"""How long to wait for a write of another process, which takes milliseconds, or seconds for a large copy."""

WAL_PAGES = 10_000
"""Size of the write-ahead log at which it is checkpointed: 40 MB. A small step changes a dozen pages; with
the default of 1,000 pages, checkpoints would take as long as the work."""

WRITER_CACHE_KIB = 256 * 1024
"""Enough for the indexes of a million tasks; with the 2 MB default, inserts slow down as a flow grows."""

READER_CACHE_KIB = 16 * 1024
"""Smaller than the writer's, since there are several readers, each with scattered lookups."""

_BY_CODE: dict[int, type[WeftError]] = {
    sqlite3.SQLITE_BUSY: StoreBusy,
    sqlite3.SQLITE_LOCKED: StoreBusy,
    sqlite3.SQLITE_FULL: StoreFull,
    sqlite3.SQLITE_READONLY: StoreReadOnly,
    sqlite3.SQLITE_CANTOPEN: StoreUnreachable,
    sqlite3.SQLITE_PERM: StoreUnreachable,
    sqlite3.SQLITE_NOTADB: NotAStore,
    sqlite3.SQLITE_CORRUPT: StoreDamaged,
}


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Translate SQLite's errors into weft's, with the path of the file."""
    try:
        yield
    except sqlite3.Error as error:
        raise translated(error, path) from error


def translated(error: sqlite3.Error, path: Path) -> WeftError:
    """Return the weft error for an error of SQLite."""
    # The low byte is the primary result code.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    family = _BY_CODE.get(code, StoreError)
    if family is StoreUnreachable and path.is_file() and not os.access(path.parent, os.W_OK):
        # The file exists, but SQLite may not create its log beside it.
        family = StoreReadOnly
    return family(f"{path}: {error}")


def connect(path: Path, *, is_reader: bool, synchronous: str) -> sqlite3.Connection:
    """Return an open connection in autocommit mode: callers begin and end transactions explicitly."""
    is_immutable = _is_immutable(path)
    _require_sqlite_file(path)
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}{'?immutable=1' if is_immutable else ''}",
        uri=True,
        timeout=BUSY_TIMEOUT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    add_functions(connection)
    connection.execute(f"PRAGMA cache_size = -{READER_CACHE_KIB if is_reader else WRITER_CACHE_KIB}")
    connection.execute("PRAGMA temp_store = MEMORY")
    if is_reader:
        connection.execute("PRAGMA query_only = ON")
    else:
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
    return connection


def add_functions(connection: sqlite3.Connection) -> None:
    """Register the SQL functions that queries use."""
    # For case-insensitive search: SQLite's own `lower` handles only ASCII.
    connection.create_function("casefold", 1, lambda text: text and text.casefold(), deterministic=True)


def _require_sqlite_file(path: Path) -> None:
    """Raise if the path is a folder, or a file too short to be a database, which SQLite would overwrite.

    The file is not opened for this check: closing it would drop the POSIX locks that other connections of
    this process hold on it, and another process could then remove their log.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreUnreachable(f"{path}: {error.strerror}") from error
    if stat.S_ISDIR(found.st_mode):
        raise NotAStore(f"{path} is a folder; a store is a file")
    if 0 < found.st_size < SHORTEST_DATABASE:
        raise NotAStore(f"{path}: file is not a database")


def _is_immutable(path: Path) -> bool:
    """Return whether the file must be read without the log that SQLite would create beside it.

    This is the case on a read-only disk and in a folder without write permission, where SQLite cannot
    even read otherwise. It is safe only if there is no log with commits, because they would not be seen.
    """
    try:
        if not path.is_file() or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
            return False
        log = path.with_name(f"{path.name}-wal")
        if not log.exists() or log.stat().st_size == 0:
            return True
        is_read_only_disk = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError as error:
        raise StoreUnreachable(f"{path}: {error.strerror}") from error
    if is_read_only_disk:
        raise StoreReadOnly(
            f"{path} has commits in its -wal file, which cannot be read on a read-only disk; copy both files"
        )
    return False


def prepare(connection: sqlite3.Connection, path: Path, *, must_exist: bool = False) -> None:
    """Migrate the file to the current schema. Raise if it is not a weft store, or has a newer schema."""
    if is_current("sqlite", _version(connection, path), str(path), must_exist=must_exist):
        return
    # Only in this mode can other processes read during a write. The mode is stored in the file.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have migrated while we waited for the lock.
        version = _version(connection, path)
        for number, script in enumerate(load_migrations("sqlite")[version:], version + 1):
            for statement in _statements(script):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection, path: Path) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    is_empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    if application != APPLICATION_ID and not is_empty:
        raise NotAStore(f"{path} is a SQLite database, but not a weft store")
    return version


def _statements(script: str) -> Iterator[str]:
    """Yield the statements of a script one by one; `executescript` would commit the transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
