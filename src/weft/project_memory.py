"""The memory of a project: its index, where its store is, and what finds in it."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from weft.memory.memory import Memory
from weft.memory.protocol import IndexProgress, IndexReport
from weft.memory.simple_index import SimpleIndex
from weft.project_file import ProjectSettings

log = logging.getLogger(__name__)


def open_memory(
    project: ProjectSettings,
    roots: Sequence[Path | str],
    on_progress: Callable[[IndexProgress], None] | None = None,
) -> Memory:
    """What knows the files of the roots. Nothing is indexed before the first question."""
    index = SimpleIndex()
    return Memory(index, index, roots, on_progress=on_progress, on_updated=_log_update)


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
