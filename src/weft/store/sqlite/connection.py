"""Connections to a SQLite file: settings, migrations, and its errors in our words."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weft.errors import WeftError
from weft.store.errors import (
    NotAStore,
    SchemaTooNew,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreNotFound,
    StoreReadOnly,
    StoreUnreachable,
)
from weft.store.sql import load_migrations

APPLICATION_ID = 0x77656674
"""The letters "weft": how we know a file of ours from another program's."""

SHORTEST_DATABASE = 512
"""Bytes of the smallest page that SQLite has."""

BUSY_TIMEOUT_SECONDS = 30.0
"""How long to wait for another process's write; its transactions take milliseconds, a large copy seconds."""

WAL_PAGES = 10_000
"""How long the log grows before it is copied into the file: 40 MB. A small step changes a dozen pages, and
with the default of 1,000 pages the copying would take as long as the work."""

WRITER_CACHE_KIB = 256 * 1024
"""Enough for the indexes of a million tasks; with the 2 MB default, inserts slow down as a flow grows."""

READER_CACHE_KIB = 16 * 1024
"""Readers look here and there, and there are several of them."""

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
    """Turn SQLite's errors into ours, with the file they are about."""
    try:
        yield
    except sqlite3.Error as error:
        raise translated(error, path) from error


def translated(error: sqlite3.Error, path: Path) -> WeftError:
    """Our error for one of SQLite's."""
    # The low byte is the primary code; the rest says more than we need.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    family = _BY_CODE.get(code, StoreError)
    if family is StoreUnreachable and path.is_file() and not os.access(path.parent, os.W_OK):
        # The file is there, but SQLite may not put its log beside it.
        family = StoreReadOnly
    return family(f"{path}: {error}")


def connect(path: Path, *, is_reader: bool, synchronous: str) -> sqlite3.Connection:
    """An open connection in autocommit mode: transactions are begun and ended in so many words."""
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
    """Add the SQL functions that queries use."""
    connection.create_function("casefold", 1, _casefold, deterministic=True)


def _casefold(text: str | None) -> str | None:
    """The text for a search in any case; SQLite's own `lower` knows ASCII only."""
    return None if text is None else text.casefold()


def _require_sqlite_file(path: Path) -> None:
    """Raise when the path is a folder, or a file too short for a database: SQLite would overwrite that.

    The file is not opened to look: closing it would drop the locks that other connections of this process
    hold on it (that is how POSIX locks work), and another process could then remove their log.
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
    """Whether the file must be read without the log that SQLite would make beside it.

    So it is on a read-only disk and in a folder where we may not write: there SQLite cannot even read
    otherwise. It is safe only when there is no log with commits in it, which then would not be seen.
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
            f"{path} has commits in its log, which cannot be read on a read-only disk; copy both files"
        )
    return False


def prepare(connection: sqlite3.Connection, path: Path, *, must_exist: bool = False) -> None:
    """Bring the file to the schema this weft knows; refuses files that are not weft's, or newer."""
    known = load_migrations("sqlite")
    version = _version(connection, path)
    if version == len(known):
        return
    if version > len(known):
        raise SchemaTooNew(location=str(path), found=version, known=len(known))
    if version == 0 and must_exist:
        raise StoreNotFound(location=str(path))
    # Readers in other processes go on during a write only in this mode; it is kept in the file.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have migrated while we waited for the lock.
        for number in range(_version(connection, path), len(known)):
            for statement in _statements(known[number]):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number + 1}")
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
        raise NotAStore(f"{path} is a SQLite database, but not one of weft's")
    return version


def _statements(script: str) -> Iterator[str]:
    """The statements of a script one by one; `executescript` would commit the transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
