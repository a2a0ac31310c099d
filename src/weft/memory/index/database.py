"""The SQLite database of the index: connections, tables, compressed texts."""

import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from importlib.resources import files
from pathlib import Path

from weft.memory.errors import IndexDamaged, IndexFileFailed, IndexOutdated, IndexReplaced, NotAnIndex

SCHEMA_VERSION = 5
"""Increase it with every change of `schema.sql` or of the words that `fields_of` makes."""

BUSY_TIMEOUT_SECONDS = 30.0
"""How long to wait for another process's write; our writes take a tenth of a second."""

CACHE_KIB = 32 * 1024

CHECKPOINT_PAGES = 4000
"""Size of the write-ahead log at a checkpoint, 16 MB: the first update writes a page several times, and a
checkpoint copies it only once."""

MERGE_SEGMENTS = 16
"""Number of FTS5 segments of one size that are merged into one. With the default of 4 words are rewritten
more often."""

WORDS_PAGE_BYTES = 16_000
"""Page size of FTS5. With the default of 4,050 writing takes a sixth longer; with 32,000 a search takes
longer, as segments are read by the page."""

MERGE_PAGES = 50
"""Number of pages written by one merge step, which takes about 20 milliseconds."""

_WORDS_SETTINGS = {
    "automerge": 0,
    "usermerge": MERGE_SEGMENTS,
    "crisismerge": 1000,
    "pgsz": WORDS_PAGE_BYTES,
}
"""Settings of FTS5. By default it merges segments inside writing transactions, which may then take half a
second. These settings turn that off; `merge_words` merges instead."""

QUICK_PAGES = 25_000
"""Maximum number of used pages (100 MB) for which VACUUM is run: it blocks other writers for about a
second."""

SHORTEST_DATABASE = 512
"""Smallest page size of SQLite, in bytes. SQLite would overwrite a shorter file."""

_TRANSIENT = {
    sqlite3.SQLITE_BUSY: "another process has locked it",
    sqlite3.SQLITE_LOCKED: "another process has locked it",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "a disk error occurred",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
    sqlite3.SQLITE_PERM: "permission denied",
}
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

TABLES = ("roots", "files", "texts", "chunks", "words", "vectors", "meta")


def connect(path: Path, *, is_reader: bool = False) -> sqlite3.Connection:
    """Open a connection in autocommit mode: transactions are started explicitly. A reader cannot write."""
    connection = _open_readable(path, "rwc")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    if is_reader:
        connection.execute("PRAGMA query_only = ON")
    return connection


def _open_readable(path: Path, mode: str) -> sqlite3.Connection:
    """Open the file; as immutable if SQLite could not read it otherwise."""
    connection = _open(path, f"mode={mode}")
    if not _is_in_read_only_folder(connection, path):
        return connection
    connection.close()
    return _open(path, "immutable=1")


def _open(path: Path, options: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}",
        timeout=BUSY_TIMEOUT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=64,
        uri=True,
    )


def _is_in_read_only_folder(connection: sqlite3.Connection, path: Path) -> bool:
    """Return True if SQLite refuses to read the file only because it cannot write files next to it.

    The file can then be opened as immutable, unless it has a write-ahead log: another process may be writing,
    and the log has data that the file lacks.
    """
    try:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.OperationalError as error:
        is_refused = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
        log = path.with_name(f"{path.name}-wal")
        return is_refused and path.is_file() and not (log.exists() and log.stat().st_size)
    except sqlite3.Error:
        return False  # the first query will raise the error
    return False


@contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """Convert errors of SQLite about the file to errors of the index; others are bugs, and pass unchanged."""
    try:
        yield
    except sqlite3.Error as error:
        # The low byte is the primary result code.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _DAMAGED:
            raise IndexDamaged(str(path), str(error)) from error
        if code in _TRANSIENT:
            raise IndexFileFailed(str(path), f"{_TRANSIENT[code]} ({error})") from error
        raise


def require_database(path: Path) -> None:
    """Raise NotAnIndex if a file is too short to be a database.

    The file is not opened, because closing it would release this process's locks on it.
    """
    with suppress(FileNotFoundError):
        if 0 < path.stat().st_size < SHORTEST_DATABASE:
            raise NotAnIndex(str(path), "is not a SQLite database")


def has_index(path: Path, application_id: int | None, *, any_version: bool = False) -> bool:
    """Return True if a file has an index. Nothing is written to the file.

    Raise NotAnIndex if the file belongs to another application, and IndexOutdated for an index of another
    schema version, unless `any_version`. `SqliteIndex` would drop such an index when it opens the file.
    """
    if not path.exists():
        return False
    require_database(path)
    with closing(_open_readable(path, "ro")) as connection:
        _require_ours(connection, path, application_id)
        version = _version(connection)
    if version not in (None, SCHEMA_VERSION) and not any_version:
        raise IndexOutdated(str(path))
    return version is not None


def prepare_tables(connection: sqlite3.Connection, path: Path, application_id: int | None) -> None:
    """Create the tables unless they exist; an index of another schema version is dropped first.

    `application_id` marks a new file as a database of the store, which may later add its own tables. Raise
    NotAnIndex, without writing anything, if the file is not empty and has neither that mark nor an index.
    """
    if _version(connection) == SCHEMA_VERSION:
        return
    _require_ours(connection, path, application_id)
    connection.execute("PRAGMA journal_mode = WAL")
    with transaction(connection):
        found = _version(connection)
        if found == SCHEMA_VERSION:
            return  # another process was faster
        if found is not None:
            drop_tables(connection)
        is_new = _is_empty(connection)
        make_tables(connection)
        if is_new and application_id is not None:
            connection.execute(f"PRAGMA application_id = {application_id}")


def require_shape(connection: sqlite3.Connection) -> None:
    """Raise IndexReplaced if the tables have another schema version; call it first in each transaction.

    Another version of weft may have replaced the tables of a long-running process.
    """
    if _version(connection) != SCHEMA_VERSION:
        raise IndexReplaced


def make_tables(connection: sqlite3.Connection) -> None:
    """Create the tables of an empty index, inside a transaction."""
    for statement in _statements():
        connection.execute(statement)
    for setting in _WORDS_SETTINGS.items():
        connection.execute("INSERT INTO memory_words (memory_words, rank) VALUES (?, ?)", setting)
    connection.execute("INSERT INTO memory_meta VALUES ('schema_version', ?)", [str(SCHEMA_VERSION)])


def drop_tables(connection: sqlite3.Connection) -> None:
    """Delete the index from the file, inside a transaction."""
    for table in TABLES:
        connection.execute(f"DROP TABLE IF EXISTS memory_{table}")


def shrink_file(connection: sqlite3.Connection) -> None:
    """Shrink the file to its used pages if that is quick; call it outside of a transaction."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    if not free or pages - free > QUICK_PAGES:
        return
    # If another process uses the file, or the disk has no space for the copy, the free pages are reused
    # later.
    with suppress(sqlite3.OperationalError):
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def merge_words(connection: sqlite3.Connection) -> None:
    """Run one merge step of the full-text index. One step after each transaction is enough to keep up."""
    with transaction(connection):
        require_shape(connection)
        connection.execute("INSERT INTO memory_words (memory_words, rank) VALUES ('merge', ?)", [MERGE_PAGES])


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit at the end, or roll back on any exception."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk may have made SQLite roll back already; the first error is the one to raise.
        with suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        raise


def _require_ours(connection: sqlite3.Connection, path: Path, application_id: int | None) -> None:
    """Raise NotAnIndex unless the file is empty, or has the store's mark or an index."""
    mark = connection.execute("PRAGMA application_id").fetchone()[0]
    is_ours = mark == application_id or (mark == 0 and _is_empty(connection))
    if not is_ours and (_version(connection) or -1) < 0:
        raise NotAnIndex(str(path), "is a SQLite database, but not one of weft's")


def _is_empty(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None


def _version(connection: sqlite3.Connection) -> int | None:
    """Return the schema version of the tables; None without an index, -1 if it is unknown."""
    row = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'memory_meta'").fetchone()
    if row is None:
        return None
    row = connection.execute("SELECT value FROM memory_meta WHERE key = 'schema_version'").fetchone()
    return int(row[0]) if row else -1


def _statements() -> Iterator[str]:
    statement = ""
    for line in (files("weft.memory.index") / "schema.sql").read_text("utf-8").splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LEVEL = 1
"""Compression level of zstd: level 2 takes 1.5 times as long and saves only a twentieth of the space."""


class _Packer(threading.local):
    """One compressor per thread: creating one for each text takes as long as compressing it."""

    def __init__(self) -> None:
        self.compressor = zstd.ZstdCompressor(level=LEVEL)


_packer = _Packer()


def pack(text: bytes) -> bytes:
    return _packer.compressor.compress(text, zstd.ZstdCompressor.FLUSH_FRAME)


def unpack(packed: bytes) -> bytes | None:
    """Decompress a text; None if the bytes are damaged or in another format."""
    try:
        return zstd.decompress(packed)
    except zstd.ZstdError:
        return None
