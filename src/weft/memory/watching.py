"""The index kept up to date while files change."""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from watchfiles import Change, DefaultFilter, watch

from weft.memory.errors import LeaseLost, RootUnavailable
from weft.memory.ignore_rules import IGNORE_FILES
from weft.memory.protocol import Index, IndexReport

log = logging.getLogger(__name__)

GATHER_MILLISECONDS = 200
"""How long changes are gathered once the first has come: a checkout is one update, not a thousand."""

STEP_MILLISECONDS = 20
"""How long nothing must happen for the gathering to end early."""

MANY_PATHS = 2000
"""From here on a sweep of the whole root is quicker than so many single paths."""

CLOSED = frozenset({".git", ".weft"})


class _Filter(DefaultFilter):
    """What the index may care about: everything but git's and our own files; rules decide of the rest."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = roots

    def __call__(self, change: Change, path: str) -> bool:
        found = place_of(self._roots, path)
        if found is None:
            return False
        parts = found[1].split("/")
        is_rules = parts[-3:] == [".git", "info", "exclude"]
        return is_rules or not CLOSED.intersection(parts)


def place_of(roots: Sequence[Path], path: str) -> tuple[Path, str] | None:
    """The root that a path lies in, the innermost if they are nested, and the path from there."""
    whole = Path(path)
    inside = [root for root in roots if whole.is_relative_to(root)]
    if not inside:
        return None
    root = max(inside, key=lambda folder: len(folder.parts))
    return root, whole.relative_to(root).as_posix()


def watch_roots(
    index: Index,
    roots: Sequence[Path],
    on_report: Callable[[IndexReport], None],
    stop: threading.Event | None = None,
    on_ready: Callable[[], None] | None = None,
) -> None:
    """Update the index as files change, until `stop` is set. The first report is of a full sweep.

    Watching begins before the sweep: what changes meanwhile is seen again, never missed.
    """
    resolved = list(dict.fromkeys(Path(root).resolve() for root in roots))
    for root in resolved:
        if not root.is_dir():
            raise RootUnavailable(str(root), "it is no folder")
    stop = stop or threading.Event()
    changes = watch(
        *resolved,
        watch_filter=_Filter(resolved),
        debounce=GATHER_MILLISECONDS,
        step=STEP_MILLISECONDS,
        stop_event=stop,
        rust_timeout=100,
        yield_on_timeout=True,
    )
    next(changes, None)  # now the watch is on
    on_report(index.update(resolved))
    if on_ready is not None:
        on_ready()
    for changed in changes:
        for report in _updates(index, resolved, {path for _, path in changed}):
            on_report(report)


def _updates(index: Index, roots: Sequence[Path], paths: Iterable[str]) -> Iterable[IndexReport]:
    by_root: dict[Path, set[str]] = {}
    for path in paths:
        found = place_of(roots, path)
        if found is not None:
            by_root.setdefault(found[0], set()).add(found[1])
    for root, changed in by_root.items():
        try:
            yield _update(index, root, _outermost(changed))
        except (LeaseLost, RootUnavailable) as error:
            log.warning("%s", error, extra={"action": "index_watch_failed"})


def _update(index: Index, root: Path, paths: Sequence[str]) -> IndexReport:
    is_rules = any(path.endswith("/exclude") or path.rpartition("/")[2] in IGNORE_FILES for path in paths)
    if len(paths) > MANY_PATHS or is_rules or "." in paths:
        return index.update([root])
    return index.update_paths(root, paths)


def _outermost(paths: set[str]) -> list[str]:
    """The paths without those that lie in a folder among them."""
    return sorted(
        path
        for path in paths
        if not any(path[:place] in paths for place, char in enumerate(path) if char == "/")
    )
