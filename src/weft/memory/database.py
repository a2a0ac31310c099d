"""The file of the index: connections, and tables that are made anew when their shape has changed."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

SCHEMA_VERSION = 3
"""Raised with every change of `schema.sql` or of the words that `words.py` makes."""

BUSY_TIMEOUT_SECONDS = 30.0
"""How long to wait for another process's write; ours take a tenth of a second."""

CACHE_KIB = 32 * 1024

CHECKPOINT_PAGES = 4000
"""How much of the log is brought into the file at once: 16 MB. A first run writes pages several times."""

MERGE_SEGMENTS = 16
"""How many segments of one size are merged into one. The default of 4 writes every word more often."""

MERGE_PAGES = 200
"""How many pages one step of merging writes: it takes about 20 milliseconds."""

_WORDS_SETTINGS = {"automerge": 0, "usermerge": MERGE_SEGMENTS, "crisismerge": 1000}
"""Left to itself FTS5 merges within the transactions that write, in the end for half a second in one of them.
It does nothing; `merge_words` does."""

TABLES = ("roots", "files", "texts", "chunks", "words", "vectors", "meta")


def connect(path: Path, *, is_reader: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode: transactions are begun and ended in so many words."""
    connection = sqlite3.connect(
        path,
        timeout=BUSY_TIMEOUT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=64,
    )
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    if is_reader:
        connection.execute("PRAGMA query_only = ON")
    return connection


def prepare_tables(connection: sqlite3.Connection, application_id: int | None) -> None:
    """Make the tables unless they are there in the shape we know; an index of another shape is dropped.

    `application_id` marks a new file as a store's, which will find it beside its own tables.
    """
    if _version(connection) == SCHEMA_VERSION:
        return
    connection.execute("PRAGMA journal_mode = WAL")
    with transaction(connection):
        found = _version(connection)
        if found == SCHEMA_VERSION:
            return  # another process was quicker
        is_new = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if found is not None:
            drop_tables(connection)
        for statement in _statements():
            connection.execute(statement)
        for setting in _WORDS_SETTINGS.items():
            connection.execute("INSERT INTO memory_words (memory_words, rank) VALUES (?, ?)", setting)
        connection.execute("INSERT INTO memory_meta VALUES ('schema_version', ?)", [str(SCHEMA_VERSION)])
        if is_new and application_id is not None:
            connection.execute(f"PRAGMA application_id = {application_id}")


def drop_tables(connection: sqlite3.Connection) -> None:
    """Take the index out of the file; within a transaction."""
    for table in TABLES:
        connection.execute(f"DROP TABLE IF EXISTS memory_{table}")


def merge_words(connection: sqlite3.Connection) -> None:
    """One step of merging what transactions wrote. A step after each of them keeps up with them."""
    with transaction(connection):
        connection.execute("INSERT INTO memory_words (memory_words, rank) VALUES ('merge', ?)", [MERGE_PAGES])


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Everything inside is kept, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection) -> int | None:
    """The shape of the tables that are there; None when there are none."""
    row = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'memory_meta'").fetchone()
    if row is None:
        return None
    row = connection.execute("SELECT value FROM memory_meta WHERE key = 'schema_version'").fetchone()
    return int(row[0]) if row else -1


def _statements() -> Iterator[str]:
    statement = ""
    for line in (files("weft.memory") / "schema.sql").read_text("utf-8").splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
