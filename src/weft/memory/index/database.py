"""The SQLite file of the index: connections, tables, compressed texts."""

import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from importlib.resources import files
from pathlib import Path

from weft.memory.errors import IndexDamaged, IndexFileFailed, IndexOutdated, IndexReplaced, NotAnIndex

SCHEMA_VERSION = 5
"""Raised with every change of `schema.sql` or of the words that `words.py` makes."""

BUSY_TIMEOUT_SECONDS = 30.0
"""How long to wait for another process's write; ours take a tenth of a second."""

CACHE_KIB = 32 * 1024

CHECKPOINT_PAGES = 4000
"""How much of the log is brought into the file at once: 16 MB. A first run writes pages several times."""

MERGE_SEGMENTS = 16
"""How many segments of one size are merged into one. The default of 4 writes every word more often."""

WORDS_PAGE_BYTES = 16_000
"""How large the pieces are in which FTS5 keeps words. With the default of 4,050 writing takes a sixth more;
with 32,000 a question takes longer, as every segment is read in pieces of that size."""

MERGE_PAGES = 50
"""How many of those one step of merging writes: it takes about 20 milliseconds."""

_WORDS_SETTINGS = {
    "automerge": 0,
    "usermerge": MERGE_SEGMENTS,
    "crisismerge": 1000,
    "pgsz": WORDS_PAGE_BYTES,
}
"""Left to itself FTS5 merges within the transactions that write, in the end for half a second in one of them.
It does nothing; `merge_words` does."""

QUICK_PAGES = 25_000
"""How much may be left in a file that is written anew to make it smaller: 100 MB, for about a second in which
nobody else writes to it."""

SHORTEST_DATABASE = 512
"""Bytes of the smallest page that SQLite has: it would write over a shorter file."""

_PASSING = {
    sqlite3.SQLITE_BUSY: "another program holds it",
    sqlite3.SQLITE_LOCKED: "another program holds it",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk fails",
    sqlite3.SQLITE_READONLY: "it may not be written",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
    sqlite3.SQLITE_PERM: "it may not be used",
}
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

TABLES = ("roots", "files", "texts", "chunks", "words", "vectors", "meta")


def connect(path: Path, *, is_reader: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode: transactions are begun and ended in so many words."""
    connection = _readable(path, "rwc")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    if is_reader:
        connection.execute("PRAGMA query_only = ON")
    return connection


def _readable(path: Path, mode: str) -> sqlite3.Connection:
    connection = _opened(path, f"mode={mode}")
    if not _is_closed(connection, path):
        return connection
    connection.close()
    return _opened(path, "immutable=1")


def _opened(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}",
        timeout=BUSY_TIMEOUT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=64,
        uri=True,
    )


def _is_closed(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether a file may be read, but SQLite refuses it since nothing may be written beside it.

    It is then read as one that nobody changes. Where there is a log, somebody may be at it, and the file
    alone would not be all there is.
    """
    try:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.OperationalError as error:
        is_refused = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
        log = path.with_name(f"{path.name}-wal")
        return is_refused and path.is_file() and not (log.exists() and log.stat().st_size)
    except sqlite3.Error:
        return False  # whoever asks for something is told
    return False


@contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """Say in our words what is wrong with the file; other errors of SQLite's are mistakes of ours."""
    try:
        yield
    except sqlite3.Error as error:
        # The low byte is the primary code; the rest says more than we need.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _DAMAGED:
            raise IndexDamaged(str(path), str(error)) from error
        if code in _PASSING:
            raise IndexFileFailed(str(path), f"{_PASSING[code]} ({error})") from error
        raise


def require_database(path: Path) -> None:
    """Raise when a file is too short to be a database; it is not opened, which would drop locks on it."""
    with suppress(FileNotFoundError):
        if 0 < path.stat().st_size < SHORTEST_DATABASE:
            raise NotAnIndex(str(path), "is no SQLite database")


def has_index(path: Path, application_id: int | None, *, of_any_shape: bool = False) -> bool:
    """Whether there is an index in a file, into which nothing is written; raises NotAnIndex as below.

    Raises IndexOutdated of one in another shape unless that is wanted: to open it would be to lose it.
    """
    if not path.exists():
        return False
    require_database(path)
    with closing(_readable(path, "ro")) as connection:
        _require_ours(connection, path, application_id)
        version = _version(connection)
    if version not in (None, SCHEMA_VERSION) and not of_any_shape:
        raise IndexOutdated(str(path))
    return version is not None


def prepare_tables(connection: sqlite3.Connection, path: Path, application_id: int | None) -> None:
    """Make the tables unless they are there in the shape we know; an index of another shape is dropped.

    `application_id` marks a new file as a store's, which will find it beside its own tables. Raises
    NotAnIndex, and writes nothing, when the file has neither that mark nor an index and is not empty.
    """
    if _version(connection) == SCHEMA_VERSION:
        return
    _require_ours(connection, path, application_id)
    connection.execute("PRAGMA journal_mode = WAL")
    with transaction(connection):
        found = _version(connection)
        if found == SCHEMA_VERSION:
            return  # another process was quicker
        if found is not None:
            drop_tables(connection)
        is_new = _is_empty(connection)
        make_tables(connection)
        if is_new and application_id is not None:
            connection.execute(f"PRAGMA application_id = {application_id}")


def require_shape(connection: sqlite3.Connection) -> None:
    """Raise when the tables are not ours any more; within a transaction, before anything is done in it.

    A process that runs for long may meet the tables of another version, which was started beside it.
    """
    if _version(connection) != SCHEMA_VERSION:
        raise IndexReplaced


def make_tables(connection: sqlite3.Connection) -> None:
    """An index of nothing; within a transaction."""
    for statement in _statements():
        connection.execute(statement)
    for setting in _WORDS_SETTINGS.items():
        connection.execute("INSERT INTO memory_words (memory_words, rank) VALUES (?, ?)", setting)
    connection.execute("INSERT INTO memory_meta VALUES ('schema_version', ?)", [str(SCHEMA_VERSION)])


def drop_tables(connection: sqlite3.Connection) -> None:
    """Take the index out of the file; within a transaction."""
    for table in TABLES:
        connection.execute(f"DROP TABLE IF EXISTS memory_{table}")


def give_space_back(connection: sqlite3.Connection) -> None:
    """Make the file as small as what is left in it, where that is quick; outside of a transaction."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    if not free or pages - free > QUICK_PAGES:
        return
    # Another process that is at the file, or a disk with no room for the copy: the free pages will be used.
    with suppress(sqlite3.OperationalError):
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def merge_words(connection: sqlite3.Connection) -> None:
    """One step of merging what transactions wrote. A step after each of them keeps up with them."""
    with transaction(connection):
        require_shape(connection)
        connection.execute("INSERT INTO memory_words (memory_words, rank) VALUES ('merge', ?)", [MERGE_PAGES])


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Everything inside is kept, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk may have made SQLite roll back by itself; the first error is the one to tell.
        with suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        raise


def _require_ours(connection: sqlite3.Connection, path: Path, application_id: int | None) -> None:
    """What is in the file decides, whatever its name is: our mark, our index, or nothing at all."""
    mark = connection.execute("PRAGMA application_id").fetchone()[0]
    is_ours = mark == application_id or (mark == 0 and _is_empty(connection))
    if not is_ours and (_version(connection) or -1) < 0:
        raise NotAnIndex(str(path), "is a SQLite database, but not one of weft's")


def _is_empty(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None


def _version(connection: sqlite3.Connection) -> int | None:
    """The shape of the tables that are there; None when there are none."""
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
"""The next one takes half as long again and saves a twentieth."""


class _Packer(threading.local):
    """A compressor for each thread: making one for every text takes as long as compressing it."""

    def __init__(self) -> None:
        self.compressor = zstd.ZstdCompressor(level=LEVEL)


_packer = _Packer()


def pack(text: bytes) -> bytes:
    """The text, compressed."""
    return _packer.compressor.compress(text, zstd.ZstdCompressor.FLUSH_FRAME)


def unpack(packed: bytes) -> bytes | None:
    """The text that was packed; None of bytes that are damaged, or were packed in another way."""
    try:
        return zstd.decompress(packed)
    except zstd.ZstdError:
        return None
