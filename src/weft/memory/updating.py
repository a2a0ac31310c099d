"""An update of one root: what is on disk compared with what is indexed, and the difference written."""

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weft.memory.database import transaction
from weft.memory.errors import RootUnavailable
from weft.memory.lease import Lease
from weft.memory.preparing import Prepared, prepare
from weft.memory.protocol import IndexProgress, IndexReport
from weft.memory.rows import delete_file, insert_file
from weft.memory.walking import Found, read_below, walk

if TYPE_CHECKING:
    from weft.memory.index import IndexSettings

WRITE_SECONDS = 0.08
"""How long a transaction may take: whoever shares the file waits so long for its own writes."""

SETTLED_NS = 2_000_000_000
"""A file that was changed less than this before it was read may change again without its time telling."""


class Update:
    """Takes in what is new, changed or gone below a root."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        lease: Lease,
        root: Path,
        settings: "IndexSettings",
        on_progress: Callable[[IndexProgress], None] | None,
    ) -> None:
        self._connection = connection
        self._lease = lease
        self._root = root
        self._settings = settings
        self._on_progress = on_progress
        self._known = self._read_known()
        self._added = self._changed = self._removed = self._seen = 0
        self._total: int | None = None
        self._skipped: dict[str, int] = {}

    def sweep(self) -> IndexReport:
        """The whole root."""
        if not self._root.is_dir():
            raise RootUnavailable(str(self._root), "it is no folder")
        found = {each.path: each for each in walk(self._root, self._settings.ignore)}
        self._total = len(found)
        self._remove([path for path in self._known if path not in found])
        self._write(self._fresh(found.values()))
        with transaction(self._connection):
            self._lease.renew()
            self._connection.execute(
                "UPDATE memory_roots SET updated_at = ? WHERE id = ?", [time.time(), self._lease.root_id]
            )
        return self._report()

    def take(self, paths: Sequence[str]) -> IndexReport:
        """A few paths, files or folders."""
        return self.sweep()

    def forget(self) -> None:
        """Everything of the root, and the root itself."""
        self._remove(list(self._known))
        with transaction(self._connection):
            self._lease.renew()
            self._connection.execute("DELETE FROM memory_roots WHERE id = ?", [self._lease.root_id])

    def _read_known(self) -> dict[str, tuple[int, int, int, int, int, bytes | None, str | None]]:
        rows = self._connection.execute(
            """SELECT path, id, size, mtime_ns, ctime_ns, is_settled, hash, skipped
            FROM memory_files WHERE root_id = ?""",
            [self._lease.root_id],
        )
        return {row[0]: row[1:] for row in rows}

    def _fresh(self, found: Iterable[Found]) -> Iterator[tuple[Found, Prepared, bool]]:
        """The files that must be written, as they are to be written."""
        for each in found:
            self._seen += 1
            known = self._known.get(each.path)
            if known is not None and known[1:5] == (each.size, each.mtime_ns, each.ctime_ns, 1):
                if known[6]:
                    self._skip(known[6])
                continue
            prepared = self._prepare(each)
            if prepared is not None:
                yield prepared

    def _prepare(self, found: Found) -> tuple[Found, Prepared, bool] | None:
        if found.size > self._settings.max_file_bytes:
            return found, Prepared(b"", "too_large"), True
        now = time.time_ns()
        try:
            read = read_below(self._root, found.path, self._settings.max_file_bytes)
        except OSError:
            self._skip("unreadable")
            return None
        if read is None:
            return found, Prepared(b"", "too_large"), False
        content, stat = read
        found = Found(found.path, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        is_settled = max(stat.st_mtime_ns, stat.st_ctime_ns) < now - SETTLED_NS
        return found, prepare(found.path, content), is_settled

    def _write(self, fresh: Iterator[tuple[Found, Prepared, bool]]) -> None:
        batch: list[tuple[Found, Prepared, bool]] = []
        size = 0
        for each in fresh:
            batch.append(each)
            size += each[1].text_bytes
            if size > 1_000_000 or len(batch) >= 500:
                self._write_batch(batch)
                batch, size = [], 0
        self._write_batch(batch)

    def _write_batch(self, batch: list[tuple[Found, Prepared, bool]]) -> None:
        if not batch:
            return
        with transaction(self._connection):
            self._lease.renew()
            for found, prepared, is_settled in batch:
                self._write_file(found, prepared, is_settled)
        self._tell()

    def _write_file(self, found: Found, prepared: Prepared, is_settled: bool) -> None:
        known = self._known.get(found.path)
        if known is not None and known[5] == prepared.hash and prepared.hash:
            self._connection.execute(
                "UPDATE memory_files SET size = ?, mtime_ns = ?, ctime_ns = ?, is_settled = ? WHERE id = ?",
                [found.size, found.mtime_ns, found.ctime_ns, is_settled, known[0]],
            )
            return
        if known is not None:
            delete_file(self._connection, known[0])
        insert_file(self._connection, self._lease.root_id, found, prepared, is_settled=is_settled)
        if prepared.skipped:
            self._skip(prepared.skipped)
        elif known is None:
            self._added += 1
        else:
            self._changed += 1

    def _remove(self, paths: Sequence[str]) -> None:
        for start in range(0, len(paths), 50):
            with transaction(self._connection):
                self._lease.renew()
                for path in paths[start : start + 50]:
                    known = self._known.pop(path)
                    delete_file(self._connection, known[0])
                    self._removed += known[6] is None
            self._tell()

    def _skip(self, reason: str) -> None:
        self._skipped[reason] = self._skipped.get(reason, 0) + 1

    def _tell(self) -> None:
        if self._on_progress is not None:
            self._on_progress(
                IndexProgress(self._seen, self._added + self._changed, self._removed, self._total)
            )

    def _report(self) -> IndexReport:
        files, size = self._connection.execute(
            """SELECT count(*), coalesce(sum(size), 0) FROM memory_files
            WHERE root_id = ? AND skipped IS NULL""",
            [self._lease.root_id],
        ).fetchone()
        return IndexReport(
            files=files,
            added=self._added,
            changed=self._changed,
            removed=self._removed,
            skipped=self._skipped,
            text_bytes=size,
        )
