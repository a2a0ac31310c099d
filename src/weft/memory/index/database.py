"""The file of the index: a cache in SQLite, which is replaced when it is damaged or of another version."""

import fcntl
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from importlib.resources import files
from pathlib import Path

from weft.config.paths import STORE_FOLDER, keep_private
from weft.memory.errors import IndexBusy, IndexDamaged, IndexFileFailed

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

APPLICATION_ID = 0x7765666D
"""Marks the file as an index of weft."""

SCHEMA_VERSION = 6
"""Increase it with every change of `schema.sql` or of the words that `fields_of` makes."""

BUSY_TIMEOUT_SECONDS = 30.0
"""How long to wait for another process's write; our writes take a tenth of a second."""

SAY_SECONDS = 1.0
"""How long to wait for another process's update before `on_wait` is called."""

_POLL_SECONDS = 0.05

CACHE_KIB = 32 * 1024

CHECKPOINT_PAGES = 4000
"""Size of the write-ahead log at a checkpoint, 16 MB: the first update writes a page several times, and a
checkpoint copies it only once."""

_WORDS_SETTINGS = {"automerge": 16, "pgsz": 16_000}
"""Settings of FTS5. With the default page size of 4,050 writing takes a sixth longer; with 32,000 a search
takes longer, as segments are read by the page. With the default of 4 segments words are rewritten more
often."""

SHORTEST_DATABASE = 512
"""Smallest page size of SQLite, in bytes. SQLite takes a shorter file for an empty one."""

_FAILURES = {
    sqlite3.SQLITE_BUSY: "another process has locked it",
    sqlite3.SQLITE_LOCKED: "this process has locked it itself",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "a disk error occurred",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
    sqlite3.SQLITE_PERM: "permission denied",
}
_DAMAGES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection in autocommit mode: transactions are started explicitly."""
    connection = _open(path, "mode=rwc")
    if _is_in_read_only_folder(connection, path):
        connection.close()
        connection = _open(path, "immutable=1")
    try:
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    except BaseException:
        connection.close()  # a connection to a damaged file would keep it locked
        raise
    return connection


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
    """Convert errors about the file to errors of the index; other errors are bugs, and pass unchanged."""
    try:
        yield
    except zstd.ZstdError as error:
        raise IndexDamaged(str(path), str(error)) from error
    except sqlite3.Error as error:
        # The low byte is the primary result code.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _DAMAGES:
            raise IndexDamaged(str(path), str(error)) from error
        if code in _FAILURES:
            raise IndexFileFailed(str(path), f"{_FAILURES[code]} ({error})") from error
        raise


@contextmanager
def lock_updates(
    path: Path, wait_seconds: float, on_wait: Callable[[], None] | None, *, is_shared: bool
) -> Iterator[None]:
    """Let one process or thread at a time update the index. Raise IndexBusy after `wait_seconds`.

    The lock is on a file of its own, as SQLite's locks on a database are lost if that is opened and closed
    elsewhere in the process. The operating system releases the lock when the process ends.
    """
    lock = path.with_name(f"{path.name}.lock")
    try:
        keep_private(lock, is_shared=is_shared)
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise IndexFileFailed(str(path), f"{lock.name} cannot be opened: {error.strerror}") from error
    try:
        begun = time.monotonic()
        while not _try_lock(descriptor):
            waited = time.monotonic() - begun
            if waited >= wait_seconds:
                raise IndexBusy(str(path))
            if on_wait is not None and waited >= SAY_SECONDS:
                on_wait()
                on_wait = None
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def find_problem(path: Path) -> str | None:
    """Return why the file must be replaced, or None if it is an index; "" if it is new.

    Raise IndexFileFailed if another application has made the file: it must not be replaced.
    """
    try:
        with clear_errors(path), closing(connect(path)) as connection:
            if is_current(connection):
                return None
            if 0 < path.stat().st_size < SHORTEST_DATABASE:
                raise IndexDamaged(str(path), "it is too short")
            names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
            mark = connection.execute("PRAGMA application_id").fetchone()[0]
    except IndexDamaged as error:
        if path.parent.name != STORE_FOLDER and not _is_marked(path):
            raise IndexFileFailed(str(path), "it is not an index of weft") from error
        return error.message
    # Before indexes had this mark, weft marked them like a store.
    is_old = {"memory_roots", "memory_words"} <= names and all("memory_" in name for name in names)
    if names and mark != APPLICATION_ID and not is_old:
        raise IndexFileFailed(str(path), "it is a database of another application")
    return f"the index in {path} was made by another version of weft" if names else ""


def _is_marked(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(72).endswith(APPLICATION_ID.to_bytes(4, "big"))


def is_current(connection: sqlite3.Connection) -> bool:
    """Return True if the tables are those of this version."""
    ((mark,), (version,)) = (
        connection.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
    )
    return (mark, version) == (APPLICATION_ID, SCHEMA_VERSION)


def reset(path: Path) -> None:
    """Make the file an empty index, whatever is in it; call it with the lock held.

    The content is overwritten in place, because other processes may have the file open: SQLite would delete
    the log of a new file of this name when they close the old one.
    """
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as empty:
        _make_tables(empty)
        try:
            _overwrite(path, empty)
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGES:
                raise
            os.truncate(path, 0)  # not even its header is a database's
            _overwrite(path, empty)


def _overwrite(path: Path, source: sqlite3.Connection) -> None:
    def raise_if_locked(status: int, _remaining: int, _total: int) -> None:
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):  # `backup` would try again without end
            raise IndexFileFailed(str(path), _FAILURES[status])

    with closing(_open(path, "mode=rwc")) as target:
        source.backup(target, progress=raise_if_locked)
        target.execute("PRAGMA journal_mode = WAL")
        target.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _make_tables(connection: sqlite3.Connection) -> None:
    connection.executescript((files("weft.memory.index") / "schema.sql").read_text("utf-8"))
    for setting in _WORDS_SETTINGS.items():
        connection.execute("INSERT INTO memory_words (memory_words, rank) VALUES (?, ?)", setting)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def drop_from_store(store: Path) -> None:
    """Delete the index that earlier versions kept in the file of the store; a locked store keeps it."""
    if not store.is_file():
        return
    with suppress(sqlite3.Error), closing(_open(store, "mode=rw")) as connection:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'memory_meta'").fetchone():
            connection.execute("PRAGMA busy_timeout = 1000")
            connection.execute("BEGIN IMMEDIATE")
            for table in ("roots", "files", "texts", "chunks", "words", "vectors", "meta"):
                connection.execute(f"DROP TABLE IF EXISTS memory_{table}")
            connection.execute("COMMIT")


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """Commit at the end, or roll back on any exception; DEFERRED reads one state of the index.

    Raise IndexFileFailed if another version of weft has replaced the tables of this process.
    """
    connection.execute(f"BEGIN {kind}")
    try:
        if not is_current(connection):
            file = connection.execute("PRAGMA database_list").fetchone()[2]
            raise IndexFileFailed(file, "another version of weft has replaced it; restart this process")
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk may have made SQLite roll back already; the first error is the one to raise.
        with suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        raise


LEVEL = 1
"""Compression level of zstd: level 2 takes 1.5 times as long and saves only a twentieth of the space."""


class _Packer(threading.local):
    """One compressor per thread: creating one for each text takes as long as compressing it."""

    def __init__(self) -> None:
        self.compressor = zstd.ZstdCompressor(level=LEVEL)


_packer = _Packer()


def pack(text: bytes) -> bytes:
    return _packer.compressor.compress(text, zstd.ZstdCompressor.FLUSH_FRAME)


def unpack(packed: bytes) -> bytes:
    """Decompress a text. Raise ZstdError if it is damaged."""
    return zstd.decompress(packed)
