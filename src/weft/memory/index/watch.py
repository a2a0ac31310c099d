"""Keep the index up to date while files change."""

import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence, Set
from contextlib import closing, suppress
from pathlib import Path

from watchfiles import Change, DefaultFilter, watch
from watchfiles.main import FileChange

from weft.errors import TransientError
from weft.memory.errors import RootUnavailable
from weft.memory.files.ignore import IGNORE_FILES, rule_files_above
from weft.memory.files.walk import is_at_or_below
from weft.memory.protocol import Index, IndexReport

State = tuple[int, int, int, int] | None
"""What tells one content of a file from another; None: there is no file."""


class RulesAbove:
    """The files of rules above some roots, as they were when they were last looked at.

    They are looked at from time to time: to watch them would be to watch every file of the folders above.
    """

    def __init__(self, roots: Iterable[Path]) -> None:
        self._files = {root: rule_files_above(root) for root in roots}
        self._states = self._look()

    def changed(self) -> list[Path]:
        """The roots whose rules have changed since the last look."""
        before, self._states = self._states, self._look()
        if before == self._states:
            return []
        new = {file for file, state in self._states.items() if state != before[file]}
        return [root for root, files in self._files.items() if new.intersection(files)]

    def _look(self) -> dict[Path, State]:
        return {file: _state(file) for files in self._files.values() for file in files}


def _state(file: Path) -> State:
    with suppress(OSError):
        known = file.stat()
        return known.st_ino, known.st_size, known.st_mtime_ns, known.st_ctime_ns
    return None


log = logging.getLogger(__name__)

GATHER_MILLISECONDS = 200
"""How long changes are gathered once the first has come: a checkout is one update, not a thousand."""

STEP_MILLISECONDS = 20
"""How long nothing must happen for the gathering to end early."""

MANY_PATHS = 2000
"""From here on a sweep of the whole root is quicker than so many single paths."""

AGAIN_SECONDS = 1.0
"""How long to wait before what failed is tried again."""

LOOK_SECONDS = 0.2
"""How often to look for roots while none is there."""

CLOSED = frozenset({".git", ".weft"})


class _Filter(DefaultFilter):
    """What the index may care about: everything but git's and our own files; rules decide of the rest."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = roots

    def __call__(self, change: Change, path: str) -> bool:
        return any(_is_of_interest(inside) for _, inside in places_of(self._roots, path))


def _is_of_interest(path: str) -> bool:
    parts = path.split("/")
    is_rules = parts[-3:] == [".git", "info", "exclude"]
    return is_rules or not CLOSED.intersection(parts)


def places_of(roots: Iterable[Path], path: str) -> list[tuple[Path, str]]:
    """The roots that a path lies in, which are several if they are nested, and the path from there."""
    whole = Path(path)
    return [(root, whole.relative_to(root).as_posix()) for root in roots if whole.is_relative_to(root)]


def outputs_of(descriptors: Iterable[int]) -> frozenset[tuple[int, int]]:
    """The ordinary files that these lead to, by device and inode."""
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

    `outputs`: files, by device and inode, that reports are written to. What is written to them makes no
    update, which would be reported, without end.

    Watching begins before the sweep: what changes meanwhile is seen again, never missed. An error that may
    pass is logged, and what it was about is tried again. A root that goes is watched again when it is back.
    """
    resolved = list(dict.fromkeys(Path(root).resolve() for root in roots))
    for root in resolved:
        if not root.is_dir():
            raise RootUnavailable(str(root), "it is no folder")
    watching = _Watching(index, resolved, on_report, stop or threading.Event(), outputs)
    watching.run(on_ready or (lambda: None))


class _Watching:
    """Roots that are watched, and what of them is still to be taken in."""

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
        self._said = ""
        self._try_at = 0.0
        """When what failed is tried again."""
        self._watched: dict[Path, tuple[int, int]] = {}
        """The folders that are watched: one that is put in the place of another has another number."""
        self._rules = RulesAbove(())

    def run(self, on_ready: Callable[[], None]) -> None:
        """Watch until stopped."""
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
        """The changes from now on of the roots that are there."""
        self._watched = _folders(self._roots)
        if not self._watched:
            raise RootUnavailable(str(self._roots[0]), "it is no folder")
        self._rules = RulesAbove(self._watched)
        changes = self._changes()
        try:
            next(changes, None)  # now the watch is on
        except OSError as error:
            raise RootUnavailable(str(self._roots[0]), f"it cannot be watched: {error}") from error
        return changes

    def _changes(self) -> Generator[set[FileChange], None, None]:
        return watch(
            *self._watched,
            watch_filter=_Filter(self._roots),
            debounce=GATHER_MILLISECONDS,
            step=STEP_MILLISECONDS,
            stop_event=self._stop,
            rust_timeout=100,
            yield_on_timeout=True,
        )

    def _follow(self, changes: Generator[set[FileChange], None, None]) -> None:
        """Take changes in, until stopped or other folders are to be watched."""
        with closing(changes):
            for changed in changes:
                is_root_gone = self._gather(changed)
                self._pending |= {root: {"."} for root in self._rules.changed()}
                if is_root_gone or _folders(self._roots) != self._watched:
                    self._warn("a root was moved, removed or has come back: watching anew")
                    return
                if self._pending and time.monotonic() >= self._try_at:
                    self._take()

    def _gather(self, changed: Iterable[FileChange]) -> bool:
        """Keep what changed for the next update; whether a root itself went."""
        is_root_gone = False
        for change, path in changed:
            if self._is_output(path):
                continue
            for root, inside in places_of(self._roots, path):
                if _is_of_interest(inside):
                    self._pending.setdefault(root, set()).add(inside)
                    is_root_gone |= inside == "." and change == Change.deleted
        return is_root_gone

    def _is_output(self, path: str) -> bool:
        if self._outputs:
            with suppress(OSError):
                known = Path(path).lstat()
                return (known.st_dev, known.st_ino) in self._outputs
        return False

    def _take(self) -> None:
        """Update what has changed; what fails now stays for later."""
        for root in [each for each in self._watched if each in self._pending]:
            try:
                report = _update(self._index, root, _outermost(self._pending[root]))
            except (TransientError, RootUnavailable) as error:
                self._warn(f"{error}; it is tried again")
                self._try_at = time.monotonic() + AGAIN_SECONDS
            else:
                del self._pending[root]
                self._said = ""
                self._on_report(report)

    def _warn(self, text: str) -> None:
        """Say what is wrong, once as long as nothing else is."""
        if text != self._said:
            self._said = text
            log.warning("%s", text, extra={"action": "index_watch_failed"})


def _folders(roots: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """The roots that are folders now, and which."""
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
    """The paths without those that lie in a folder among them."""
    inside = (path for path in paths if is_at_or_below(path.rpartition("/")[0], paths))
    return sorted(paths.difference(inside))
