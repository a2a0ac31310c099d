"""The index of files in SQLite tables."""

import logging
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from weft.config.paths import keep_private
from weft.memory.errors import IndexDamaged, NotIndexed
from weft.memory.index.database import clear_errors, connect, find_problem, lock_updates, reset, unpack
from weft.memory.index.update import IndexSettings, Update
from weft.memory.protocol import Chunk, FileFacts, IndexProgress, IndexReport, Symbol

log = logging.getLogger(__name__)

WAIT_SECONDS = 600.0
"""How long an update waits for an update by another process."""

_Result = TypeVar("_Result")


class SqliteIndex:
    """An index in a SQLite file. The file is a cache: a damaged one, or one of another version, is replaced.

    Several processes may use one file. One at a time updates it; readers never wait. An update waits
    `wait_seconds` for an update by another process before it raises IndexBusy; `on_wait` is called if the
    wait is long. Only this user can access the file; with `is_shared`, also its group.
    """

    def __init__(
        self,
        path: Path,
        settings: IndexSettings | None = None,
        *,
        wait_seconds: float = WAIT_SECONDS,
        on_wait: Callable[[], None] | None = None,
        is_shared: bool = False,
    ) -> None:
        self.path = path
        self.settings = settings or IndexSettings()
        self._lock = partial(lock_updates, path, wait_seconds, on_wait, is_shared=is_shared)
        self._connections: dict[threading.Thread, sqlite3.Connection] = {}
        self._opening = threading.Lock()
        """Held while `_connections` is changed."""
        keep_private(path, is_shared=is_shared)
        if find_problem(path) is not None:
            with self._lock(), clear_errors(path):
                problem = find_problem(path)  # another process may have been faster
                if problem is not None:
                    self._replace(problem)

    def update(
        self, roots: Sequence[Path], on_progress: Callable[[IndexProgress], None] | None = None
    ) -> IndexReport:
        resolved = dict.fromkeys(Path(root).resolve() for root in roots)

        def update_all() -> IndexReport:
            report = IndexReport(files=0)
            for root in resolved:
                report = _sum(report, self._update_of(root, on_progress).sweep())
            return msgspec.structs.replace(report, index_bytes=self._index_bytes())

        return self._write(update_all)

    def update_paths(self, root: Path, paths: Sequence[str]) -> IndexReport:
        """Update a few files or folders below a root."""

        def update_some() -> IndexReport:
            report = self._update_of(Path(root).resolve()).update_paths(paths)
            return msgspec.structs.replace(report, index_bytes=self._index_bytes())

        return self._write(update_some)

    def _update_of(self, root: Path, on_progress: Callable[[IndexProgress], None] | None = None) -> Update:
        return Update(self.connection, root, self.settings, on_progress)

    def _write(self, work: Callable[[], _Result]) -> _Result:
        """Run work that updates the index. If the file is damaged, replace it and run the work again."""
        with self._lock(), clear_errors(self.path):
            try:
                with clear_errors(self.path):
                    return work()
            except IndexDamaged as error:
                self._replace(error.message)
                return work()

    def _replace(self, problem: str) -> None:
        """Make the file an empty index, with the lock held."""
        if problem:
            log.warning("%s; it is replaced by a new one", problem, extra={"action": "index_replaced"})
        self.close()
        reset(self.path)

    def facts(self, root: str, path: str) -> FileFacts | None:
        with clear_errors(self.path):
            row = self.connection.execute(
                """SELECT size, lines, language, title, symbols, mtime_ns, ctime_ns
                FROM memory_files JOIN memory_roots ON memory_roots.id = root_id
                WHERE memory_roots.path = ? AND memory_files.path = ? AND skipped IS NULL""",
                [root, path],
            ).fetchone()
        if row is None:
            return None
        size, lines, language, title, symbols, mtime_ns, ctime_ns = row
        return FileFacts(
            root=root,
            path=path,
            size=size,
            lines=lines,
            language=language,
            title=title,
            symbols=tuple(Symbol(*each) for each in msgspec.json.decode(symbols or b"[]")),
            changed_at=mtime_ns / 1e9,
            inode_changed_at=ctime_ns / 1e9,
        )

    def chunks(self, ids: Sequence[int]) -> dict[int, Chunk]:
        """Return the chunks with these ids, in this order; deleted ones are left out."""
        rows: dict[int, tuple[Any, ...]] = {}
        marks = ", ".join("?" * len(ids))
        for row in self.connection.execute(
            f"""SELECT memory_chunks.id, memory_roots.path, memory_files.path, first_line, start_character,
                end_character, last_line, memory_chunks.symbols, file_id
            FROM memory_chunks JOIN memory_files ON memory_files.id = file_id
            JOIN memory_roots ON memory_roots.id = root_id
            WHERE memory_chunks.id IN ({marks})""",  # noqa: S608 - question marks only
            list(ids),
        ):
            rows[row[0]] = row[1:]
        ends: dict[int, int] = {}
        for *_, last, _, file_id in rows.values():
            ends[file_id] = max(last, ends.get(file_id, 0))
        texts = {file_id: self._lines(file_id, end) for file_id, end in ends.items()}
        found = {}
        for number in (each for each in ids if each in rows):
            root, path, first, start, end, last, symbols, file_id = rows[number]
            text = b"\n".join(texts[file_id][first - 1 : last]).decode("utf-8", "replace")
            found[number] = Chunk(
                root=root,
                path=path,
                first_line=first,
                last_line=last,
                text=text[start:end],
                part=None if end is None else (start, end, len(text)),
                symbols=tuple(symbols.split()),
            )
        return found

    def _lines(self, file_id: int, end: int) -> list[bytes]:
        """Return the lines of a file, at least up to the line `end`."""
        row = self.connection.execute("SELECT text FROM memory_texts WHERE file_id = ?", [file_id]).fetchone()
        return [] if row is None else unpack(row[0]).split(b"\n", end)

    def status(self) -> dict[str, Any]:
        with clear_errors(self.path):
            rows = self.connection.execute(
                """SELECT memory_roots.path, updated_at, count(size), coalesce(sum(size), 0)
                FROM memory_roots LEFT JOIN memory_files ON root_id = memory_roots.id AND skipped IS NULL
                GROUP BY memory_roots.id ORDER BY memory_roots.path"""
            ).fetchall()
            names = ("root", "updated_at", "files", "text_bytes")
            roots = [dict(zip(names, row, strict=True)) for row in rows]
            return {
                "file": str(self.path),
                "roots": roots,
                "files": sum(root["files"] for root in roots),
                "chunks": self.connection.execute("SELECT count(*) FROM memory_chunks").fetchone()[0],
                "text_bytes": sum(root["text_bytes"] for root in roots),
                "index_bytes": self._index_bytes(),
            }

    def drop(self, roots: Sequence[Path] | None = None) -> None:
        """Remove roots from the index; for None make the file empty."""
        if roots is None:
            with self._lock(), clear_errors(self.path):
                self._replace("")
            return
        for root in [Path(root).resolve() for root in roots]:
            self._write(lambda root=root: self._drop(root))  # type: ignore[misc]

    def _drop(self, root: Path) -> None:
        known = self.connection.execute("SELECT 1 FROM memory_roots WHERE path = ?", [str(root)])
        if known.fetchone() is None:
            raise NotIndexed(str(root))
        self._update_of(root).drop()

    def close(self) -> None:
        with self._opening:
            for connection in self._connections.values():
                connection.close()
            self._connections.clear()

    @property
    def connection(self) -> sqlite3.Connection:
        """Return this thread's connection. Only the holder of the lock writes, and readers never wait."""
        thread = threading.current_thread()
        if thread not in self._connections:
            with self._opening:
                for gone in [each for each in self._connections if not each.is_alive()]:
                    self._connections.pop(gone).close()
                self._connections[thread] = connect(self.path)
        return self._connections[thread]

    def _index_bytes(self) -> int:
        pages, free, size = (
            int(self.connection.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size


def _sum(one: IndexReport, other: IndexReport) -> IndexReport:
    names = ("files", "added", "changed", "removed", "text_bytes")
    return IndexReport(
        skipped=dict(Counter(one.skipped) + Counter(other.skipped)),
        **{name: getattr(one, name) + getattr(other, name) for name in names},
    )
