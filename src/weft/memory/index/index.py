"""The index of files in SQLite tables."""

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from weft.config.paths import keep_private
from weft.memory.errors import IndexBusy, LeaseLost, NotIndexed
from weft.memory.index.database import (
    clear_errors,
    connect,
    drop_tables,
    make_tables,
    prepare_tables,
    require_database,
    require_shape,
    shrink_file,
    transaction,
    unpack,
)
from weft.memory.index.lease import WAIT_SECONDS, Lease
from weft.memory.index.rows import read_again
from weft.memory.index.update import IndexSettings, Update
from weft.memory.protocol import Chunk, FileFacts, IndexProgress, IndexReport, Symbol

log = logging.getLogger(__name__)

LEASES_TO_LOSE = 3
"""How often an update is restarted after another process took over its root, before LeaseLost is raised."""


class SqliteIndex:
    """An index in a SQLite file, alone or next to the tables of a store.

    Several processes may use one file. One process at a time updates a root; readers never wait. An update
    waits `wait_seconds` for an update by another process before it raises IndexBusy; `on_wait` is called with
    the root if the wait is long. Only this user can access the file; with `is_shared`,
    also its group.
    """

    def __init__(
        self,
        path: Path,
        settings: IndexSettings | None = None,
        *,
        application_id: int | None = None,
        wait_seconds: float = WAIT_SECONDS,
        on_wait: Callable[[str], None] | None = None,
        is_shared: bool = False,
    ) -> None:
        self.path = path
        self._wait_seconds = wait_seconds
        self._on_wait = on_wait
        self.settings = settings or IndexSettings()
        keep_private(path, is_shared=is_shared)
        require_database(path)
        self._writer = connect(path)
        self._writing = threading.RLock()
        """Held while `_writer` is used: threads share the connection."""
        self._readers: dict[threading.Thread, sqlite3.Connection] = {}
        self._opening = threading.Lock()
        """Held while `_readers` is changed."""
        try:
            prepare_tables(self._writer, path, application_id)
        except BaseException:
            self._writer.close()
            raise

    def update(
        self, roots: Sequence[Path], on_progress: Callable[[IndexProgress], None] | None = None
    ) -> IndexReport:
        """Update the roots. If some are busy, update the others first, then raise IndexBusy."""
        report = IndexReport(files=0)
        busy: list[IndexBusy] = []
        for root in dict.fromkeys(Path(root).resolve() for root in roots):
            try:
                report = _sum(report, self._update(root, on_progress, lambda update: update.sweep()))
            except IndexBusy as error:
                busy.append(error)
        if busy:
            raise busy[0]
        with clear_errors(self.path):
            return msgspec.structs.replace(report, index_bytes=self._index_bytes())

    def update_paths(self, root: Path, paths: Sequence[str]) -> IndexReport:
        """Update a few files or folders below a root."""
        root = Path(root).resolve()
        return self._update(root, None, lambda update: update.update_paths(paths))

    def _update(
        self,
        root: Path,
        on_progress: Callable[[IndexProgress], None] | None,
        work: Callable[[Update], IndexReport],
    ) -> IndexReport:
        """Run an update; restart it if another process took over the root (perhaps the machine slept)."""
        for _ in range(LEASES_TO_LOSE):
            with suppress(LeaseLost), self._lease(root) as lease:
                return work(Update(self._writer, lease, root, self.settings, on_progress))
        with self._lease(root) as lease:
            return work(Update(self._writer, lease, root, self.settings, on_progress))

    def facts(self, root: str, path: str) -> FileFacts | None:
        row = self.reader.execute(
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
        """Return the chunks with these ids, in this order; deleted and damaged ones are left out."""
        rows: dict[int, tuple[Any, ...]] = {}
        marks = ", ".join("?" * len(ids))
        for row in self.reader.execute(
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
        texts = self._lines(ends)
        found = {}
        for number in (each for each in ids if each in rows):
            root, path, first, start, end, last, symbols, file_id = rows[number]
            if file_id not in texts:
                continue
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

    def _lines(self, ends: Mapping[int, int]) -> dict[int, list[bytes]]:
        """Return the lines of each file by id, at least up to its line in `ends`; leave out damaged files."""
        texts = {file_id: self._stored_text(file_id) for file_id in ends}
        damaged = [file_id for file_id, text in texts.items() if text is None]
        if damaged:
            self._schedule_reindex(damaged)
        return {
            file_id: text.split(b"\n", ends[file_id]) for file_id, text in texts.items() if text is not None
        }

    def _stored_text(self, file_id: int) -> bytes | None:
        """Return the stored text of a file, or None if it is damaged."""
        row = self.reader.execute("SELECT text FROM memory_texts WHERE file_id = ?", [file_id]).fetchone()
        return b"" if row is None else unpack(row[0])

    def _schedule_reindex(self, damaged: Sequence[int]) -> None:
        """Make the next update index damaged files again."""
        log.warning(
            "some texts in the index %s are damaged: these files are not found until the next update",
            self.path,
            extra={"action": "index_text_damaged", "files": len(damaged)},
        )
        # On a separate connection, so that a search does not wait for an update. If the file is locked or
        # read-only, the next search tries again.
        with suppress(sqlite3.Error), closing(connect(self.path)) as connection:
            connection.execute("PRAGMA busy_timeout = 1000")
            with transaction(connection):
                require_shape(connection)
                read_again(connection, damaged)

    def status(self) -> dict[str, Any]:
        with clear_errors(self.path):
            return self._status()

    def _status(self) -> dict[str, Any]:
        rows = self.reader.execute(
            """SELECT path, updated_at,
                (SELECT count(*) FROM memory_files WHERE root_id = memory_roots.id AND skipped IS NULL),
                (SELECT coalesce(sum(size), 0) FROM memory_files WHERE root_id = memory_roots.id
                    AND skipped IS NULL)
            FROM memory_roots ORDER BY path"""
        ).fetchall()
        names = ("root", "updated_at", "files", "text_bytes")
        roots = [dict(zip(names, row, strict=True)) for row in rows]
        return {
            "file": str(self.path),
            "roots": roots,
            "files": sum(root["files"] for root in roots),
            "chunks": self.reader.execute("SELECT count(*) FROM memory_chunks").fetchone()[0],
            "text_bytes": sum(root["text_bytes"] for root in roots),
            "index_bytes": self._index_bytes(),
        }

    def drop(self, roots: Sequence[Path] | None = None) -> None:
        """Remove roots from the index; for None remove all of them and shrink the file."""
        if roots is None:
            with self._writing, clear_errors(self.path):
                self._drop_all()
                shrink_file(self._writer)
            return
        for root in [Path(root).resolve() for root in roots]:
            if not self._is_known(root):
                raise NotIndexed(str(root))
            with self._lease(root) as lease:
                Update(self._writer, lease, root, self.settings, None).drop()

    def _drop_all(self) -> None:
        """Remove all roots, once their leases are held."""
        held: set[str] = set()
        with self._writing, ExitStack() as leases:
            while True:
                for root in sorted(self._roots() - held):
                    leases.enter_context(self._lease(Path(root)))
                    held.add(root)
                with clear_errors(self.path), transaction(self._writer):
                    require_shape(self._writer)
                    if self._roots() <= held:
                        drop_tables(self._writer)
                        make_tables(self._writer)
                        return

    def _roots(self) -> set[str]:
        return {row[0] for row in self._writer.execute("SELECT path FROM memory_roots")}

    def close(self) -> None:
        with self._writing, self._opening:
            for connection in (*self._readers.values(), self._writer):
                connection.close()
            self._readers.clear()

    @property
    def reader(self) -> sqlite3.Connection:
        """Return this thread's connection for reading, which never waits for a writer."""
        thread = threading.current_thread()
        if thread not in self._readers:
            with self._opening:
                for gone in [each for each in self._readers if not each.is_alive()]:
                    self._readers.pop(gone).close()
                self._readers[thread] = connect(self.path, is_reader=True)
        return self._readers[thread]

    def _is_known(self, root: Path) -> bool:
        found = self.reader.execute("SELECT 1 FROM memory_roots WHERE path = ?", [str(root)])
        return found.fetchone() is not None

    @contextmanager
    def _lease(self, root: Path) -> Iterator[Lease]:
        with self._writing, clear_errors(self.path):
            lease = Lease.take(
                self._writer, str(root), wait_seconds=self._wait_seconds, on_wait=self._on_wait
            )
            try:
                with lease.kept(self.path):
                    yield lease
            finally:
                # The lease expires by itself, and an earlier error is the one to raise.
                with suppress(sqlite3.Error):
                    lease.release()

    def _index_bytes(self) -> int:
        try:
            row = self.reader.execute(
                "SELECT sum(pgsize) FROM dbstat WHERE aggregate = TRUE AND name LIKE 'memory\\_%' ESCAPE '\\'"
            ).fetchone()
            return int(row[0] or 0)
        except sqlite3.OperationalError:  # SQLite was built without dbstat
            return self.path.stat().st_size


def _sum(one: IndexReport, other: IndexReport) -> IndexReport:
    skipped = dict(one.skipped)
    for reason, count in other.skipped.items():
        skipped[reason] = skipped.get(reason, 0) + count
    return IndexReport(
        files=one.files + other.files,
        added=one.added + other.added,
        changed=one.changed + other.changed,
        removed=one.removed + other.removed,
        skipped=skipped,
        text_bytes=one.text_bytes + other.text_bytes,
        index_bytes=other.index_bytes,
    )
