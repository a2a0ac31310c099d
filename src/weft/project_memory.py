"""The memory of a project: its index, which lives where its store is, and what finds in it."""

import logging
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from weft.memory.index import SqliteIndex
from weft.memory.matching import LexicalMatcher
from weft.memory.memory import IndexUnavailable, Memory
from weft.memory.protocol import IndexProgress, IndexReport
from weft.settings import default_store, is_postgresql, load_settings, working_folder
from weft.store.sqlite.connection import APPLICATION_ID

INDEX_FILE = "index.db"

log = logging.getLogger(__name__)


def open_memory(
    roots: Sequence[Path | str], on_progress: Callable[[IndexProgress], None] | None = None
) -> Memory:
    """What knows the files of the roots. Nothing is indexed before the first question."""
    file = index_file()
    try:
        index = SqliteIndex(file, application_id=APPLICATION_ID if file.name != INDEX_FILE else None)
    except (sqlite3.Error, OSError) as error:
        raise IndexUnavailable(f"the index in {file} cannot be opened: {error}") from error
    return Memory(index, LexicalMatcher(index), roots, on_progress=on_progress, on_updated=_log_update)


def index_file() -> Path:
    """The store's own file if it is SQLite; beside where it would be if the store is PostgreSQL."""
    db = load_settings().db
    if is_postgresql(db):
        return default_store(working_folder()).with_name(INDEX_FILE)
    return Path(db)


def _log_update(report: IndexReport) -> None:
    if report.added or report.changed or report.removed:
        log.info(
            "the index knows %d files: %d new, %d changed, %d gone",
            report.files,
            report.added,
            report.changed,
            report.removed,
            extra={"action": "index_updated"},
        )
