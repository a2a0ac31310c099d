"""Watches roots, and updates the index when files change."""

import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence, Set
from contextlib import closing, suppress
from pathlib import Path

from watchfiles import Change, watch
from watchfiles.main import FileChange

from weft.errors import TransientError
from weft.limits import Backoff
from weft.memory.errors import RootUnavailable
from weft.memory.files.ignore import IGNORE_FILES, rule_files_above
from weft.memory.files.walk import is_at_or_below
from weft.memory.protocol import Index, IndexReport

State = tuple[int, int, int, int] | None
"""Inode, size and times of a file; None if it does not exist."""


def _state(file: Path) -> State:
    with suppress(OSError):
        known = file.stat()
        return known.st_ino, known.st_size, known.st_mtime_ns, known.st_ctime_ns
    return None


log = logging.getLogger(__name__)

GATHER_MILLISECONDS = 200
"""How long changes are collected after the first one: a checkout is one update, not a thousand."""

STEP_MILLISECONDS = 20
"""Collecting ends early after this time without a change."""

MANY_PATHS = 2000
"""With more changed paths, a sweep of the whole root is faster."""

UPDATE_BACKOFF = Backoff(delay=1.0, factor=1.0, cap=1.0)
"""Before a failed update is retried."""

LOOK_SECONDS = 0.2
"""Interval between checks for roots while no root exists."""

CLOSED = frozenset({".git", ".weft"})


def _is_relevant(path: str) -> bool:
    parts = path.split("/")
    is_rules = parts[-3:] == [".git", "info", "exclude"]
    return is_rules or not CLOSED.intersection(parts)


def split_by_root(roots: Iterable[Path], path: str) -> list[tuple[Path, str]]:
    """Return the roots that contain a path (several if they are nested), each with the relative path."""
    whole = Path(path)
    return [(root, whole.relative_to(root).as_posix()) for root in roots if whole.is_relative_to(root)]


def outputs_of(descriptors: Iterable[int]) -> frozenset[tuple[int, int]]:
    """Return the device and inode of the regular files behind these descriptors."""
    found = set()
    for descriptor in descriptors:
        with suppress(OSError):
            known = os.fstat(descriptor)
            if stat.S_ISREG(known.st_mode):
                found.add((known.st_dev, known.st_ino))
    return frozenset(found)


def watch_roots(
    index: Index,
    roots: Sequence[Path],
    on_report: Callable[[IndexReport], None],
    stop: threading.Event | None = None,
    on_ready: Callable[[], None] | None = None,
    outputs: Set[tuple[int, int]] = frozenset(),
) -> None:
    """Update the index as files change, until `stop` is set. The first report is of a full sweep.

    `outputs` are the files, by device and inode, that reports are written to. Changes of them are ignored:
    they would cause an update and another report, without end.

    Watching begins before the sweep, so that no change is missed. A transient error is logged, and the update
    is retried. A root that disappears is watched again when it is back.
    """
    resolved = list(dict.fromkeys(Path(root).resolve() for root in roots))
    for root in resolved:
        if not root.is_dir():
            raise RootUnavailable(str(root), "it is not a folder")
    watcher = _Watcher(index, resolved, on_report, stop or threading.Event(), outputs)
    watcher.run(on_ready or (lambda: None))


class _Watcher:
    """Watches roots, and indexes their changes."""

    def __init__(
        self,
        index: Index,
        roots: Sequence[Path],
        on_report: Callable[[IndexReport], None],
        stop: threading.Event,
        outputs: Set[tuple[int, int]],
    ) -> None:
        self._index = index
        self._roots = roots
        self._on_report = on_report
        self._stop = stop
        self._outputs = outputs
        self._pending: dict[Path, set[str]] = {}
        """Changed paths by root; `.` is the root itself."""
        self._last_warning = ""
        self._retry_at = 0.0
        """When failed updates are retried."""
        self._watched: dict[Path, tuple[int, int]] = {}
        """Watched folders with device and inode, which change when a folder is replaced."""
        self._rule_files: dict[Path, list[Path]] = {}
        """Ignore files above each watched root; polled, because watching them would mean watching all files
        of the folders above."""
        self._rule_states: dict[Path, State] = {}

    def run(self, on_ready: Callable[[], None]) -> None:
        changes = self._begin()
        self._on_report(self._index.update(self._roots))
        on_ready()
        self._follow(changes)
        while not self._stop.is_set():
            try:
                changes = self._begin()
            except RootUnavailable:
                self._stop.wait(LOOK_SECONDS)
                continue
            self._pending |= {root: {"."} for root in self._watched}
            self._follow(changes)

    def _begin(self) -> Generator[set[FileChange], None, None]:
        """Start watching the roots that exist. Return their changes."""
        self._watched = _folders(self._roots)
        if not self._watched:
            raise RootUnavailable(str(self._roots[0]), "it is not a folder")
        self._rule_files = {root: rule_files_above(root) for root in self._watched}
        self._rule_states = self._poll_rules()
        changes = watch(
            *self._watched,
            watch_filter=self._is_watched,
            debounce=GATHER_MILLISECONDS,
            step=STEP_MILLISECONDS,
            stop_event=self._stop,
            rust_timeout=100,
            yield_on_timeout=True,
        )
        try:
            next(changes, None)  # starts watching
        except OSError as error:
            raise RootUnavailable(str(self._roots[0]), f"it cannot be watched: {error}") from error
        return changes

    def _is_watched(self, change: Change, path: str) -> bool:
        """Return True unless a change is in a folder of git or weft; ignore rules are applied later."""
        return any(_is_relevant(inside) for _, inside in split_by_root(self._roots, path))

    def _follow(self, changes: Generator[set[FileChange], None, None]) -> None:
        """Index changes, until stopped or until the folders to watch have changed."""
        with closing(changes):
            for changed in changes:
                is_root_gone = self._gather(changed)
                self._pending |= {root: {"."} for root in self._find_changed_rules()}
                if is_root_gone or _folders(self._roots) != self._watched:
                    self._warn("a root was moved, removed or restored: restarting the watch")
                    return
                if self._pending and time.monotonic() >= self._retry_at:
                    self._update_pending()

    def _poll_rules(self) -> dict[Path, State]:
        return {file: _state(file) for files in self._rule_files.values() for file in files}

    def _find_changed_rules(self) -> list[Path]:
        """Return the roots with rules above them that have changed since the last call."""
        before, self._rule_states = self._rule_states, self._poll_rules()
        new = {file for file, state in self._rule_states.items() if state != before[file]}
        return [root for root, files in self._rule_files.items() if new.intersection(files)]

    def _gather(self, changed: Iterable[FileChange]) -> bool:
        """Collect changes for the next update. Return True if a root itself was deleted."""
        is_root_gone = False
        for change, path in changed:
            if self._is_output(path):
                continue
            for root, inside in split_by_root(self._roots, path):
                if _is_relevant(inside):
                    self._pending.setdefault(root, set()).add(inside)
                    is_root_gone |= inside == "." and change == Change.deleted
        return is_root_gone

    def _is_output(self, path: str) -> bool:
        if self._outputs:
            with suppress(OSError):
                known = Path(path).lstat()
                return (known.st_dev, known.st_ino) in self._outputs
        return False

    def _update_pending(self) -> None:
        """Index the pending changes; those that fail stay pending."""
        for root in [each for each in self._watched if each in self._pending]:
            try:
                report = _update(self._index, root, _outermost(self._pending[root]))
            except (TransientError, RootUnavailable) as error:
                self._warn(f"{error}; retrying")
                self._retry_at = time.monotonic() + UPDATE_BACKOFF.delay_after(1)
            else:
                del self._pending[root]
                self._last_warning = ""
                self._on_report(report)

    def _warn(self, text: str) -> None:
        """Log a warning, unless it repeats the last one."""
        if text != self._last_warning:
            self._last_warning = text
            log.warning("%s", text, extra={"action": "index_watch_failed"})


def _folders(roots: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """Return the roots that are folders now, with device and inode."""
    found = {}
    for root in roots:
        with suppress(OSError):
            known = root.stat()
            if stat.S_ISDIR(known.st_mode):
                found[root] = (known.st_dev, known.st_ino)
    return found


def _update(index: Index, root: Path, paths: Sequence[str]) -> IndexReport:
    is_rules = any(path.endswith("/exclude") or path.rpartition("/")[2] in IGNORE_FILES for path in paths)
    if len(paths) > MANY_PATHS or is_rules or "." in paths:
        return index.update([root])
    return index.update_paths(root, paths)


def _outermost(paths: set[str]) -> list[str]:
    """Return the paths without those that are inside another one."""
    inside = (path for path in paths if is_at_or_below(path.rpartition("/")[0], paths))
    return sorted(paths.difference(inside))
