"""Open the memory of a project: its index, in a file beside its store, and the matchers."""

import logging
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from weft.config.settings import (
    INDEX_FILE,
    STORE_FILE,
    default_store,
    is_memory,
    is_postgresql,
    load_settings,
    read_project,
    working_folder,
)
from weft.memory.index.database import drop_from_store
from weft.memory.index.index import WAIT_SECONDS, SqliteIndex
from weft.memory.index.update import IndexSettings
from weft.memory.memory import IndexUnavailable, Memory
from weft.memory.protocol import Embedder, IndexProgress, IndexReport, Matcher
from weft.memory.search.hybrid import HybridMatcher, Vectors
from weft.memory.search.matcher import LexicalMatcher

ASK_WAIT_SECONDS = 0.3
"""How long a query waits for another process that updates the index: long enough for `weft index watch` to
index a file, too short for a first update."""

log = logging.getLogger(__name__)


def open_memory(
    roots: Sequence[Path | str],
    on_progress: Callable[[IndexProgress], None] | None = None,
    embedder: Embedder | None = None,
    db: str | None = None,
    folder: Path | None = None,
) -> Memory:
    """Return the memory of the roots; nothing is indexed before the first query.

    `db` names another store than the project's, `folder` another project folder than the current one. With
    an embedder, matches are also ranked by meaning.
    """
    index = open_index(db, wait_seconds=ASK_WAIT_SECONDS, folder=folder)
    matcher: Matcher
    matcher = lexical = LexicalMatcher(index)
    if embedder is not None:
        matcher = HybridMatcher(lexical, embedder, Vectors(index, embedder))
    return Memory(
        index,
        matcher,
        roots,
        on_progress=on_progress,
        on_updated=_log_update,
        on_close=lexical.close,
    )


def open_index(
    db: str | None = None,
    *,
    wait_seconds: float = WAIT_SECONDS,
    on_wait: Callable[[], None] | None = None,
    folder: Path | None = None,
) -> SqliteIndex:
    """Open the index of the project; create a missing one.

    An update waits up to `wait_seconds` for another process; `on_wait` is called if it waits.
    """
    folder = folder or working_folder()
    settings = load_settings(db=db, folder=folder)
    file = index_file(settings.db, folder)
    memory = settings.memory
    if not file.exists():
        drop_from_store(Path(settings.db))
    try:
        return SqliteIndex(
            file,
            IndexSettings(max_file_bytes=memory.max_file_bytes, ignore=memory.ignore),
            wait_seconds=wait_seconds,
            on_wait=on_wait,
            is_shared=settings.store.shared,
        )
    except (sqlite3.Error, OSError) as error:
        raise IndexUnavailable(f"the index in {file} cannot be opened: {error}") from error


def find_index(db: str | None = None, *, on_wait: Callable[[], None] | None = None) -> SqliteIndex | None:
    """Open the index of the project; return None, and write nothing, if there is no index."""
    is_there = index_file(load_settings(db=db).db).exists()
    return open_index(db, on_wait=on_wait) if is_there else None


def index_roots() -> list[Path]:
    """Return the folders to index by default: the roots of `[memory]`, else of `[tools]`."""
    project = read_project(working_folder())
    return [Path(root) for root in project.memory.roots or project.tools.roots]


def index_file(db: str, folder: Path | None = None) -> Path:
    """Return the file of the index: beside a SQLite store, otherwise in the project's .weft folder."""
    if is_postgresql(db) or is_memory(db):
        return default_store(folder or working_folder()).with_name(INDEX_FILE)
    store = Path(db)
    return store.with_name(INDEX_FILE if store.name == STORE_FILE else f"{store.stem}-{INDEX_FILE}")


def _log_update(report: IndexReport) -> None:
    if report.added or report.changed or report.removed:
        log.info(
            "index updated: %d files, %d new, %d changed, %d deleted",
            report.files,
            report.added,
            report.changed,
            report.removed,
            extra={"action": "index_updated"},
        )
