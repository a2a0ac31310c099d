"""Walk the files below a root that are not ignored, and read them. No link is followed."""

import errno
import os
import stat
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct

from weft.config.paths import identity, open_databases
from weft.memory.files.ignore import Rules, rules_of, top_of, tracked_though_ignored

_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, None})
"""What an error says of a path that is not there, or that leads over a link or to no ordinary file. Whatever
else is wrong may pass: rights, a disk or a network that fails."""


class Found(Struct, frozen=True, array_like=True, gc=False):
    """A file as the walk sees it."""

    path: str
    """Relative to the root, with `/`; bytes that are no UTF-8 are kept as half surrogates."""
    size: int
    mtime_ns: int
    ctime_ns: int


class Walk:
    """The files below a root that git, `.weftignore` files and extra patterns leave in."""

    def __init__(self, root: Path, extra: Sequence[str] = ()) -> None:
        self._root = root
        self._start = rules_of(root, extra)
        self._tops: dict[bytes, None] = {b"": None} if is_in_repository(root) else {}
        """Where repositories begin, as far as the walk has come."""
        self._tracked_by_top: dict[bytes, list[bytes]] = {}
        """What git said of them: it is asked once."""
        self._rules_in: dict[bytes, Rules] = {}
        """The rules in folders on the way to single paths: many of these lie in the same folders."""
        self.unreadable: dict[str, None] = {}
        """Folders and files that are there, but what they are or hold cannot be found out."""

    def all(self) -> Iterator[Found]:
        """Every file."""
        yield from self._folder(b"", self._start, is_root=True)
        yield from self._tracked(b"")

    def below(self, path: str) -> Iterator[Found]:
        """A file, or every file of a folder; nothing when it is not there or ignored."""
        whole = os.fsencode(path)
        rules = self._start
        done = b""
        for part in whole.split(b"/"):
            done = done + b"/" + part if done else part
            try:
                is_folder = stat.S_ISDIR((self._root / os.fsdecode(done)).lstat().st_mode)
                if rules.is_ignored(done, is_folder=is_folder):
                    break
                if done != whole:
                    rules = self._on_the_way(done, rules)
            except OSError as error:
                self._miss(done, error)
                return
            if done == whole:
                yield from self._folder(done, rules) if is_folder else self._file(done)
        yield from self._tracked(whole)

    def _folder(self, path: bytes, rules: Rules, *, is_root: bool = False) -> Iterator[Found]:
        stack = [(path, rules)]
        while stack:
            path, rules = stack.pop()
            try:
                with os.scandir(self._root / os.fsdecode(path)) as opened:
                    entries = sorted(opened, key=lambda entry: entry.name)
            except OSError as error:
                self._miss(path, error)
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
                    yield from self._entry(below, entry)
            stack.extend(reversed(folders))

    def _inside(self, path: bytes, rules: Rules, names: Sequence[str]) -> Rules:
        if ".git" in names:
            self._tops[path] = None
        return rules.inside(self._root / os.fsdecode(path), path, names)

    def _on_the_way(self, path: bytes, rules: Rules) -> Rules:
        found = self._rules_in.get(path)
        if found is None:
            names = [each.name for each in (self._root / os.fsdecode(path)).iterdir()]
            found = self._rules_in[path] = self._inside(path, rules, names)
        return found

    def _entry(self, path: bytes, entry: os.DirEntry[str]) -> Iterator[Found]:
        try:
            known = entry.stat(follow_symlinks=False)
        except OSError as error:
            self._miss(path, error)
        else:
            yield Found(os.fsdecode(path), known.st_size, known.st_mtime_ns, known.st_ctime_ns)

    def _file(self, path: bytes) -> Iterator[Found]:
        try:
            known = stat_below(self._root, os.fsdecode(path))
        except OSError as error:
            self._miss(path, error)
        else:
            yield Found(os.fsdecode(path), known.st_size, known.st_mtime_ns, known.st_ctime_ns)

    def _miss(self, path: bytes, error: OSError) -> None:
        """Note what cannot be read; what is gone, or is no file of ours, is none of it."""
        name = os.fsdecode(path)
        if error.errno not in _GONE and not is_at_or_below(name, self.unreadable):
            self.unreadable[name] = None

    def _tracked(self, path: bytes) -> Iterator[Found]:
        """Files here that a rule of git's matches and that are in its index: git does not ignore those."""
        for top in self._tops:
            for whole in self._tracked_in(top):
                is_here = not path or whole == path or whole.startswith(path + b"/")
                if is_here and not self._start.is_ignored_by_us(whole):
                    yield from self._file(whole)

    def _tracked_in(self, top: bytes) -> list[bytes]:
        found = self._tracked_by_top.get(top)
        if found is None:
            names = tracked_though_ignored(self._root / os.fsdecode(top))
            found = self._tracked_by_top[top] = [top + b"/" + name if top else name for name in names]
        return found


def is_at_or_below(path: str, places: Container[str]) -> bool:
    """Whether a path, or a folder that it lies in, is one of the places."""
    while path and path not in places:
        path = path.rpartition("/")[0]
    return path in places


def at_or_below(paths: Iterable[str], places: Container[str]) -> Iterator[str]:
    """Those of many paths of which that is so; a folder is looked at once, not with each of its files."""
    folders: dict[str, bool] = {}
    for path in paths:
        folder = path.rpartition("/")[0]
        is_inside = folders.get(folder)
        if is_inside is None:
            is_inside = folders[folder] = is_at_or_below(folder, places)
        if is_inside or path in places:
            yield path


def is_in_repository(root: Path) -> bool:
    """Whether a folder belongs to a git repository."""
    return top_of(root) is not None


def stat_below(root: Path, path: str) -> os.stat_result:
    """What is known of an ordinary file below the root; OSError if it is none, or a link is on the way."""
    folder, _, name = path.rpartition("/")
    here = open_folder(root, folder)
    try:
        return stat_in(here, name)
    finally:
        os.close(here)


def open_folder(root: Path, path: str) -> int:
    """A descriptor of a folder below the root, or of the root itself; raises OSError if a link is on the way.

    Folders are entered one by one: one that is made a link while we look leads nowhere.
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
    """What is known of an ordinary file in an open folder; raises OSError if it is none."""
    if name in ("", ".", ".."):
        raise IsADirectoryError(name)
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(f"{name} is no ordinary file")
    return found


def open_in(folder: int, name: str) -> int:
    """A descriptor of an ordinary file in an open folder; raises OSError if it is none."""
    if name in ("", ".", ".."):
        raise IsADirectoryError(name)
    # Without O_NONBLOCK opening a pipe would wait for somebody to write.
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(f"{name} is no ordinary file")
    return file


_MAY_HAVE_GROWN_BYTES = 16_384
"""What is asked for beyond the size of a file: it may be larger by now, and some say that they have none."""


class Reader:
    """Reads files of a root, for a moment: the folder it read from last stays open.

    Files come folder by folder, and going there from the root takes longer than to read a small one.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path: str | None = None
        self._folder = -1
        self._databases = open_databases()  # once: later connections are to those that are open already

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def read(self, path: str, max_bytes: int) -> tuple[bytes, os.stat_result]:
        """The bytes of a file, too many if it has more, and what was known of it before they were read.

        Raises OSError if it is no ordinary file below the root, a link is on the way, or it belongs to a
        database that this process has open.
        """
        folder, _, name = path.rpartition("/")
        if folder != self._path:
            self._leave()
            self._folder = open_folder(self._root, folder)
            self._path = folder
        if identity(stat_in(self._folder, name)) in self._databases:
            raise OSError(f"{path} belongs to a database that is open")
        descriptor = open_in(self._folder, name)
        try:
            known = os.fstat(descriptor)
            content = b""
            wanted = min(known.st_size + _MAY_HAVE_GROWN_BYTES, max_bytes + 1)
            while len(content) <= max_bytes and (more := os.read(descriptor, wanted)):
                content += more
            return content, known
        finally:
            os.close(descriptor)

    def _leave(self) -> None:
        if self._path is not None:
            self._path = None
            os.close(self._folder)
