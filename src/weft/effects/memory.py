"""Open the memory of a project: its index, in the file of its store, and the matchers."""

import logging
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from weft.config.settings import (
    default_store,
    is_memory,
    is_postgresql,
    load_settings,
    read_project,
    working_folder,
)
from weft.memory.index.database import has_index
from weft.memory.index.index import SqliteIndex
from weft.memory.index.lease import WAIT_SECONDS
from weft.memory.index.update import IndexSettings
from weft.memory.memory import IndexUnavailable, Memory
from weft.memory.protocol import Embedder, IndexProgress, IndexReport, Matcher
from weft.memory.search.hybrid import HybridMatcher, Vectors
from weft.memory.search.matcher import LexicalMatcher
from weft.store.sqlite.connection import APPLICATION_ID

INDEX_FILE = "index.db"

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
    closing = ExitStack()
    closing.callback(lexical.close)
    if embedder is not None:
        vectors = Vectors(index.path, embedder)
        matcher = HybridMatcher(lexical, embedder, vectors)
        closing.callback(vectors.close)
    return Memory(
        index,
        matcher,
        roots,
        on_progress=on_progress,
        on_updated=_log_update,
        on_close=closing.close,
    )


def open_index(
    db: str | None = None,
    *,
    wait_seconds: float = WAIT_SECONDS,
    on_wait: Callable[[str], None] | None = None,
    folder: Path | None = None,
) -> SqliteIndex:
    """Open the index of the project; create a missing one.

    An update waits up to `wait_seconds` for another process; `on_wait` is called with the root if it waits.
    """
    folder = folder or working_folder()
    settings = load_settings(db=db, folder=folder)
    file = index_file(settings.db, folder)
    memory = read_project(folder).memory
    try:
        return SqliteIndex(
            file,
            IndexSettings(max_file_bytes=memory.max_file_bytes, ignore=memory.ignore),
            application_id=APPLICATION_ID,
            wait_seconds=wait_seconds,
            on_wait=on_wait,
            is_shared=settings.is_shared,
        )
    except (sqlite3.Error, OSError) as error:
        raise IndexUnavailable(f"the index in {file} cannot be opened: {error}") from error


def find_index(
    db: str | None = None, *, any_version: bool = False, on_wait: Callable[[str], None] | None = None
) -> SqliteIndex | None:
    """Open the index of the project; return None, and write nothing, if there is no index.

    Raise IndexOutdated for an index of another version; with `any_version`, replace it by an empty index.
    """
    file = index_file(load_settings(db=db).db)
    try:
        is_there = has_index(file, APPLICATION_ID, any_version=any_version)
    except (sqlite3.Error, OSError) as error:
        raise IndexUnavailable(f"the index in {file} cannot be opened: {error}") from error
    return open_index(db, on_wait=on_wait) if is_there else None


def index_roots() -> list[Path]:
    """Return the folders to index by default: the roots of `[memory]`, else of `[tools]`."""
    project = read_project(working_folder())
    return [Path(root) for root in project.memory.roots or project.tools.roots]


def index_file(db: str, folder: Path | None = None) -> Path:
    """Return the file of the index: a SQLite store's own file, else one in the project's .weft folder."""
    if is_postgresql(db) or is_memory(db):
        return default_store(folder or working_folder()).with_name(INDEX_FILE)
    return Path(db)


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
