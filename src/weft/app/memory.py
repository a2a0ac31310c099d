"""Memory of a project: its index of files, and queries."""

import stat
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec import Struct

from weft.config.settings import base_folder, read_project, working_folder
from weft.effects.local import EffectHooks
from weft.effects.memory import find_index, index_roots, open_index
from weft.evaluator.effects import ContextQuery, Step
from weft.memory.errors import RootUnavailable
from weft.memory.files.git import commit_times
from weft.memory.index.watch import outputs_of, watch_roots
from weft.memory.protocol import IndexProgress as IndexProgress
from weft.memory.protocol import IndexReport as IndexReport

OnProgress = Callable[[IndexProgress], None]
OnWait = Callable[[], None]
"""Called when the update waits for another process."""

EMPTY_STATUS: dict[str, Any] = {
    "file": None, "roots": [], "files": 0, "chunks": 0, "text_bytes": 0, "index_bytes": 0,
}  # fmt: skip


def update_index(
    db: str | None, roots: Sequence[Path], on_wait: OnWait, on_progress: OnProgress | None
) -> IndexReport:
    """Index the new and changed files below the roots."""
    with closing(open_index(db, on_wait=on_wait)) as index:
        return index.update(roots, on_progress)


def watch_index(
    db: str | None, roots: Sequence[Path], on_wait: OnWait, on_update: Callable[[IndexReport], None]
) -> None:
    """Update the index as files change, until interrupted; files that standard output goes to are ignored."""
    with closing(open_index(db, on_wait=on_wait)) as index:
        watch_roots(index, roots, on_update, outputs=outputs_of((1, 2)))


def index_status(db: str | None) -> dict[str, Any]:
    """Return the indexed roots and the size of the index."""
    found = find_index(db)
    if found is None:
        return EMPTY_STATUS
    with closing(found) as index:
        return index.status()


def drop_from_index(db: str | None, paths: Sequence[Path], on_wait: OnWait) -> int:
    """Remove folders, by default all, from the index; return their number."""
    found = find_index(db, on_wait=on_wait)
    if found is None:
        return 0
    with closing(found) as index:
        before = len(index.status()["roots"])
        index.drop(list(paths) or None)
        return before - len(index.status()["roots"])


def chosen_roots(paths: Sequence[str]) -> list[Path]:
    """Return the given folders, or the roots of the project; raise RootUnavailable if one is not a folder."""
    roots = [Path(path) for path in paths] or index_roots()
    for root in roots:
        why = _root_problem(root)
        if why is not None:
            raise RootUnavailable(str(root), why)
    return roots


def _root_problem(root: Path) -> str | None:
    try:
        return None if stat.S_ISDIR(root.stat().st_mode) else "it is a file, not a folder"
    except (FileNotFoundError, NotADirectoryError):
        return "there is no such folder"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"


async def find_context(
    query: ContextQuery, hooks: EffectHooks, *, model: str | None, roots: Sequence[Path], db: str | None
) -> dict[str, Any]:
    """Return the AssociativeMatchResult of a query; `roots` and `db` replace those of the project."""
    effects = hooks.effects(model=model, memory_roots=roots or None, memory_db=db)
    try:
        return await effects.get_context(Step("1", query), query)
    finally:
        await effects.close()


class SearchedFolders(Struct, frozen=True):
    """The folders that a query searched, and the other ones of the index."""

    searched: tuple[str, ...]
    others: tuple[str, ...]


def searched_folders(roots: Sequence[Path], db: str | None) -> SearchedFolders:
    """Return where a query with these roots looks, by default in the roots of the project."""
    searched = tuple(str(root.resolve()) for root in roots or index_roots())
    indexed = [one["root"] for one in index_status(db)["roots"]]
    return SearchedFolders(searched, tuple(path for path in indexed if path not in searched))


def add_commit_times(items: Sequence[dict[str, Any]]) -> None:
    """Add `committed_at` to the metadata of items with files in git."""
    base = base_folder(read_project(working_folder()))
    by_root: dict[str, dict[str, dict[str, Any]]] = {}
    for item in items:
        root = item["metadata"]["root"]
        relative = (base / item["source_path"]).relative_to(root)
        by_root.setdefault(root, {})[str(relative)] = item["metadata"]
    for root, known in by_root.items():
        for path, time in commit_times(Path(root), list(known)).items():
            known[path]["committed_at"] = time
