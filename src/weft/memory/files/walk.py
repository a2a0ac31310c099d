"""Walks and reads the files below a root that are not ignored. Symbolic links are never followed."""

import errno
import os
import stat
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct

from weft.config.paths import find_open_databases, identity
from weft.memory.files.ignore import Rules, rules_of, top_of, tracked_though_ignored

_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, None})
"""Errors for a path that does not exist, crosses a link or is not a regular file. Other errors may be
temporary: permissions, or a failing disk or network."""


class Found(Struct, frozen=True, array_like=True, gc=False):
    """A file found by a walk."""

    path: str
    """Relative to the root, with `/`; bytes that are not UTF-8 become lone surrogates."""
    size: int
    mtime_ns: int
    ctime_ns: int


class Walk:
    """Finds the files below a root that git, `.weftignore` files and extra patterns do not ignore."""

    def __init__(self, root: Path, extra: Sequence[str] = ()) -> None:
        self._root = root
        self._root_rules = rules_of(root, extra)
        self._tops: dict[bytes, None] = {b"": None} if top_of(root) is not None else {}
        """Top folders of the repositories that the walk has reached."""
        self._tracked_by_top: dict[bytes, list[bytes]] = {}
        """Cache of ignored but tracked files by repository."""
        self._rules_in: dict[bytes, Rules] = {}
        """Cache of the rules of folders, for `below`."""
        self.unreadable: dict[str, None] = {}
        """Folders and files that exist but cannot be read."""

    def all(self) -> Iterator[Found]:
        yield from self._walk_folder(b"", self._root_rules, is_root=True)
        yield from self._tracked(b"")

    def below(self, path: str) -> Iterator[Found]:
        """Yield a file, or the files of a folder; nothing if the path does not exist or is ignored."""
        whole = os.fsencode(path)
        rules = self._root_rules
        done = b""
        for part in whole.split(b"/"):
            done = done + b"/" + part if done else part
            try:
                is_folder = stat.S_ISDIR((self._root / os.fsdecode(done)).lstat().st_mode)
                if rules.is_ignored(done, is_folder=is_folder):
                    break
                if done != whole:
                    rules = self._rules_of(done, rules)
            except OSError as error:
                self._record_unreadable(done, error)
                return
            if done == whole:
                yield from self._walk_folder(done, rules) if is_folder else self._stat(done)
        yield from self._tracked(whole)

    def _walk_folder(self, path: bytes, rules: Rules, *, is_root: bool = False) -> Iterator[Found]:
        stack = [(path, rules)]
        while stack:
            path, rules = stack.pop()
            try:
                with os.scandir(self._root / os.fsdecode(path)) as opened:
                    entries = sorted(opened, key=lambda entry: entry.name)
            except OSError as error:
                self._record_unreadable(path, error)
                continue
            if not is_root:
                rules = self._inside(path, rules, [entry.name for entry in entries])
            is_root = False
            folders = []
            prefix = path + b"/" if path else b""
            for entry in entries:
                below = prefix + os.fsencode(entry.name)
                is_folder = entry.is_dir(follow_symlinks=False)
                if rules.is_ignored(below, is_folder=is_folder):
                    continue
                if is_folder:
                    folders.append((below, rules))
                elif entry.is_file(follow_symlinks=False):
                    yield from self._stat(below, entry)
            stack.extend(reversed(folders))

    def _inside(self, path: bytes, rules: Rules, names: Sequence[str]) -> Rules:
        if ".git" in names:
            self._tops[path] = None
        return rules.inside(self._root / os.fsdecode(path), path, names)

    def _rules_of(self, path: bytes, rules: Rules) -> Rules:
        found = self._rules_in.get(path)
        if found is None:
            names = [each.name for each in (self._root / os.fsdecode(path)).iterdir()]
            found = self._rules_in[path] = self._inside(path, rules, names)
        return found

    def _stat(self, path: bytes, entry: os.DirEntry[str] | None = None) -> Iterator[Found]:
        name = os.fsdecode(path)
        try:
            known = entry.stat(follow_symlinks=False) if entry is not None else stat_below(self._root, name)
        except OSError as error:
            self._record_unreadable(path, error)
        else:
            yield Found(name, known.st_size, known.st_mtime_ns, known.st_ctime_ns)

    def _record_unreadable(self, path: bytes, error: OSError) -> None:
        """Add a path to `unreadable`, unless it does not exist or is not a regular file."""
        name = os.fsdecode(path)
        if error.errno not in _GONE and not is_at_or_below(name, self.unreadable):
            self.unreadable[name] = None

    def _tracked(self, path: bytes) -> Iterator[Found]:
        """Yield the tracked files at or below `path` that match an ignore rule: git does not ignore them."""
        for top in self._tops:
            for whole in self._tracked_in(top):
                is_here = not path or whole == path or whole.startswith(path + b"/")
                if is_here and not self._root_rules.is_ignored_by_us(whole):
                    yield from self._stat(whole)

    def _tracked_in(self, top: bytes) -> list[bytes]:
        found = self._tracked_by_top.get(top)
        if found is None:
            names = tracked_though_ignored(self._root / os.fsdecode(top))
            found = self._tracked_by_top[top] = [top + b"/" + name if top else name for name in names]
        return found


def is_at_or_below(path: str, tops: Container[str]) -> bool:
    """Return True if a path, or a folder that contains it, is one of `tops`."""
    while path and path not in tops:
        path = path.rpartition("/")[0]
    return path in tops


def at_or_below(paths: Iterable[str], tops: Container[str]) -> Iterator[str]:
    """Yield the paths that are at or below one of `tops`; each folder is checked once."""
    folders: dict[str, bool] = {}
    for path in paths:
        folder = path.rpartition("/")[0]
        is_inside = folders.get(folder)
        if is_inside is None:
            is_inside = folders[folder] = is_at_or_below(folder, tops)
        if is_inside or path in tops:
            yield path


def stat_below(root: Path, path: str) -> os.stat_result:
    """Return the status of a regular file below the root.

    Raise OSError if it is not a regular file, or if the path crosses a link.
    """
    folder, _, name = path.rpartition("/")
    here = open_folder(root, folder)
    try:
        return stat_in(here, name)
    finally:
        os.close(here)


def open_folder(root: Path, path: str) -> int:
    """Open a folder below the root, or the root itself. Raise OSError if the path crosses a link.

    Folders are opened one by one relative to the folder above, so replacing one by a link meanwhile has no
    effect.
    """
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in path.split("/") if path else ():
            if folder in ("", ".", ".."):
                raise NotADirectoryError(path)
            below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = below
    except BaseException:
        os.close(here)
        raise
    return here


def stat_in(folder: int, name: str) -> os.stat_result:
    """Return the status of a file in an open folder. Raise OSError if it is not a regular file."""
    if name in ("", ".", ".."):
        raise IsADirectoryError(name)
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(f"{name} is not a regular file")
    return found


_EXTRA_BYTES = 16_384
"""Bytes requested beyond the size of a file: it may have grown, and special file systems report size 0."""


class Reader:
    """Reads files of a root; a context manager.

    The folder of the last file stays open, because files are read folder by folder, and opening a folder from
    the root takes longer than reading a small file.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path: str | None = None
        self._folder = -1
        # Once is enough: later connections use the same database files.
        self._databases = find_open_databases()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_folder()

    def read(self, path: str, max_bytes: int) -> tuple[bytes, os.stat_result]:
        """Return the content of a file, and its status before it was read.

        The content of a larger file is truncated, but to more than `max_bytes`, so that the caller notices.
        Raise OSError if the path is not a regular file below the root, crosses a link, or belongs to a
        database that this process has open: closing a descriptor of such a file would release SQLite's locks.
        """
        folder, _, name = path.rpartition("/")
        if folder != self._path:
            self._close_folder()
            self._folder = open_folder(self._root, folder)
            self._path = folder
        if identity(stat_in(self._folder, name)) in self._databases:
            raise OSError(f"{path} belongs to a database that is open")
        # Without O_NONBLOCK, opening a named pipe would block until a writer opens it.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=self._folder)
        try:
            known = os.fstat(descriptor)
            if not stat.S_ISREG(known.st_mode):  # replaced meanwhile
                raise OSError(f"{path} is not a regular file")
            content = b""
            wanted = min(known.st_size + _EXTRA_BYTES, max_bytes + 1)
            while len(content) <= max_bytes and (more := os.read(descriptor, wanted)):
                content += more
            return content, known
        finally:
            os.close(descriptor)

    def _close_folder(self) -> None:
        if self._path is not None:
            self._path = None
            os.close(self._folder)
