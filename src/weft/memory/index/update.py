"""Updates the index of one root: compares the disk with the index, and writes the difference."""

import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import astuple

from weft.limits import is_unicode
from weft.memory.errors import RootUnavailable
from weft.memory.files.ignore import IGNORE_FILES
from weft.memory.files.walk import Found, Walk, at_or_below
from weft.memory.index.database import transaction, unpack
from weft.memory.index.prepare import FILES_A_BATCH, Done, Prepared, prepare_files, text_at, text_lines
from weft.memory.protocol import IndexProgress, IndexReport
from weft.memory.search.query import fields_of, path_words

MAX_FILE_BYTES = 1_000_000

SETTLED_NS = 2_000_000_000
"""A file modified less than this before it was read may change again with the same modification time."""


class IndexSettings(Struct, frozen=True, kw_only=True):
    """Settings that decide which files are indexed."""

    max_file_bytes: int = MAX_FILE_BYTES
    ignore: tuple[str, ...] = ()
    """Additional patterns, as in a `.gitignore` at the root."""


class Update:
    """One update of a root: indexes new and changed files, and removes deleted ones."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        root: Path,
        settings: IndexSettings,
        on_progress: Callable[[IndexProgress], None] | None,
    ) -> None:
        self._connection = connection
        self._root = root
        with transaction(connection):
            connection.execute("INSERT OR IGNORE INTO memory_roots (path) VALUES (?)", [str(root)])
        row = connection.execute("SELECT id FROM memory_roots WHERE path = ?", [str(root)]).fetchone()
        self._root_id: int = row[0]
        self._settings = settings
        self._on_progress = on_progress
        self._known = self._read_known()
        """By path: id, size, mtime_ns, ctime_ns, is_settled, hash and skipped of `memory_files`."""
        self._added = self._changed = self._removed = self._seen = 0
        self._total: int | None = None
        self._skipped: Counter[str] = Counter()

    def sweep(self) -> IndexReport:
        """Update the whole root."""
        if not self._root.is_dir():
            raise RootUnavailable(str(self._root), "it is not a folder")
        walk = Walk(self._root, self._settings.ignore)
        found = {each.path: each for each in walk.all()}
        if "" in walk.unreadable:
            raise RootUnavailable(str(self._root), "it cannot be read")
        self._write_difference(found, self._without_unreadable(list(self._known), walk))
        with transaction(self._connection):
            self._connection.execute(
                "UPDATE memory_roots SET updated_at = ? WHERE id = ?", [time.time(), self._root_id]
            )
        return self._report()

    def update_paths(self, paths: Sequence[str]) -> IndexReport:
        """Update a few files or folders; the whole root if an ignore file is among them."""
        if any(path.rpartition("/")[2] in IGNORE_FILES or not path for path in paths):
            return self.sweep()
        walk = Walk(self._root, self._settings.ignore)
        found: dict[str, Found] = {}
        for path in paths:
            found |= {each.path: each for each in walk.below(path)}
        known = list(at_or_below(self._known, frozenset(paths)))
        self._write_difference(found, self._without_unreadable(known, walk))
        return self._report()

    def _without_unreadable(self, known: Sequence[str], walk: Walk) -> Sequence[str]:
        """Return the known paths without unreadable ones, which stay indexed: that may be temporary."""
        if not walk.unreadable:
            return known
        self._skipped["unreadable"] += len(walk.unreadable)
        kept = frozenset(at_or_below(known, walk.unreadable))
        return [path for path in known if path not in kept]

    def _write_difference(self, found: dict[str, Found], known: Sequence[str]) -> None:
        """Write the difference between the files found on disk and the files known to the index."""
        self._total = len(found)
        self._remove([path for path in known if path not in found])
        to_read = [each for each in found.values() if not self._is_unchanged(each)]
        self._seen = len(found) - len(to_read)
        self._report_progress()
        self._write(to_read)

    def drop(self) -> None:
        """Delete the root and its files from the index."""
        self._remove(list(self._known))
        with transaction(self._connection):
            self._connection.execute("DELETE FROM memory_roots WHERE id = ?", [self._root_id])

    def _read_known(self) -> dict[str, tuple[int, int, int, int, int, bytes | None, str | None]]:
        rows = self._connection.execute(
            """SELECT path, id, size, mtime_ns, ctime_ns, is_settled, hash, skipped
            FROM memory_files WHERE root_id = ?""",
            [self._root_id],
        )
        return {row[0]: row[1:] for row in rows}

    def _is_unchanged(self, found: Found) -> bool:
        known = self._known.get(found.path)
        if known is None or known[1:5] != (found.size, found.mtime_ns, found.ctime_ns, 1):
            return False
        if known[6] == "too_large" and found.size <= self._settings.max_file_bytes:
            return False  # the limit was raised
        if known[6] is None and found.size > self._settings.max_file_bytes:
            return False  # the limit was lowered
        if known[6] is not None:
            self._skipped[known[6]] += 1
        return True

    def _write(self, to_read: Sequence[Found]) -> None:
        limit = self._settings.max_file_bytes
        large = [each for each in to_read if each.size > limit]
        self._write_files([Done(each, Prepared(b"", "too_large")) for each in large])
        begun_ns = time.time_ns()
        small = [each for each in to_read if each.size <= limit and is_unicode(each.path)]
        self._skipped["unreadable"] += len(to_read) - len(large) - len(small)
        for done in prepare_files(self._root, small, limit, self._hashes(small)):
            self._write_files(done, begun_ns)

    def _hashes(self, files: Sequence[Found]) -> dict[str, bytes]:
        """Return the known hashes of indexed texts, by which a touched but unchanged file is recognised."""
        known = ((each.path, self._known.get(each.path)) for each in files)
        return {path: row[5] for path, row in known if row is not None and row[5] and row[6] is None}

    def _write_files(self, files: Sequence[Done], read_ns: int = 0) -> None:
        """Write prepared files in one transaction.

        `read_ns` is a time before the files were read; 0 if they were not read.
        """
        with transaction(self._connection):
            for file in files:
                self._write_file(file, read_ns)
        self._seen += len(files)
        self._report_progress()

    def _write_file(self, done: Done, read_ns: int) -> None:
        found, prepared = done.found, done.prepared
        known = self._known.get(found.path)
        if prepared is None:
            # An indexed file stays as it was, as it may become readable again.
            self._skipped["unreadable"] += 1
            return
        if prepared.skipped:
            self._skipped[prepared.skipped] += 1
        # A file that changed while or just before it was read may have changed again with the same time.
        is_settled = max(found.mtime_ns, found.ctime_ns) < read_ns - SETTLED_NS or not read_ns
        if known is not None and known[5] and known[5] == prepared.hash and known[6] == prepared.skipped:
            self._connection.execute(
                "UPDATE memory_files SET size = ?, mtime_ns = ?, ctime_ns = ?, is_settled = ? WHERE id = ?",
                [found.size, found.mtime_ns, found.ctime_ns, is_settled, known[0]],
            )
            return
        if known is not None:
            delete_file(self._connection, known[0])
        insert_file(self._connection, self._root_id, found, prepared, is_settled=is_settled)
        if not prepared.skipped and (known is None or known[6]):
            self._added += 1
        elif not prepared.skipped:
            self._changed += 1
        elif known is not None and not known[6]:
            self._removed += 1

    def _remove(self, paths: Sequence[str]) -> None:
        for start in range(0, len(paths), FILES_A_BATCH):
            with transaction(self._connection):
                for path in paths[start : start + FILES_A_BATCH]:
                    known = self._known.pop(path)
                    delete_file(self._connection, known[0])
                    self._removed += known[6] is None
            self._report_progress()

    def _report_progress(self) -> None:
        if self._on_progress is not None:
            self._on_progress(
                IndexProgress(self._seen, self._added + self._changed, self._removed, self._total)
            )

    def _report(self) -> IndexReport:
        files, size = self._connection.execute(
            """SELECT count(*), coalesce(sum(size), 0) FROM memory_files
            WHERE root_id = ? AND skipped IS NULL""",
            [self._root_id],
        ).fetchone()
        return IndexReport(
            files=files,
            added=self._added,
            changed=self._changed,
            removed=self._removed,
            skipped=dict(+self._skipped),  # without reasons that have no files
            text_bytes=size,
        )


_INSERT_WORDS = """INSERT INTO memory_words (rowid, path, symbols, headings, content, parts)
VALUES (?, ?, ?, ?, ?, ?)"""
_DELETE_WORDS = """INSERT INTO memory_words (memory_words, rowid, path, symbols, headings, content, parts)
VALUES ('delete', ?, ?, ?, ?, ?, ?)"""


def insert_file(
    connection: sqlite3.Connection, root_id: int, found: Found, prepared: Prepared, *, is_settled: bool
) -> None:
    """Insert a file that is not in the index; for `is_settled` see the column of `memory_files`."""
    file_id = connection.execute(
        """INSERT INTO memory_files (root_id, path, size, mtime_ns, ctime_ns, is_settled, hash, skipped,
            lines, language, title, symbols) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        [root_id, *astuple(found), is_settled, *astuple(prepared)[:6]],
    ).lastrowid
    if prepared.skipped:
        return
    connection.execute("INSERT INTO memory_texts VALUES (?, ?)", [file_id, prepared.text])
    (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM memory_chunks").fetchone()
    numbered = list(enumerate(prepared.chunks, last + 1))
    connection.executemany(
        "INSERT INTO memory_chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [(number, file_id, *astuple(chunk)[:-1]) for number, chunk in numbered],
    )
    connection.executemany(_INSERT_WORDS, [(number, *chunk.fields) for number, chunk in numbered])


def delete_file(connection: sqlite3.Connection, file_id: int) -> None:
    """Delete a file and its words, which are recomputed from the stored text."""
    path = connection.execute("SELECT path FROM memory_files WHERE id = ?", [file_id]).fetchone()[0]
    text = connection.execute("SELECT text FROM memory_texts WHERE file_id = ?", [file_id]).fetchone()
    if text is not None:
        lines = text_lines(unpack(text[0]).decode("utf-8", "replace"))
        rows = connection.execute(
            """SELECT id, symbols, headings, first_line, last_line, start_character, end_character
            FROM memory_chunks WHERE file_id = ?""",
            [file_id],
        ).fetchall()
        words = path_words(path)
        for chunk_id, symbols, headings, first, last, start, end in rows:
            chunk = text_at(lines, (first, last, start, end)).encode()
            connection.execute(_DELETE_WORDS, [chunk_id, *fields_of(words, symbols, headings, chunk)])
    connection.execute("DELETE FROM memory_chunks WHERE file_id = ?", [file_id])
    connection.execute("DELETE FROM memory_texts WHERE file_id = ?", [file_id])
    connection.execute("DELETE FROM memory_files WHERE id = ?", [file_id])
