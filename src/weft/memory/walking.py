"""The files below a root that are not ignored, and their bytes. No link is followed."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from weft.memory.ignore_rules import Rules, rules_of, tracked_though_ignored

_MAY_HAVE_GROWN_BYTES = 16_384
"""What is asked for beyond the size of a file: it may be larger by now, and some say that they have none."""


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
        self._tops: list[bytes] = [b""] if is_in_repository(root) else []
        """Where repositories begin, as far as the walk has come."""

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
            except OSError:
                return
            if rules.is_ignored(done, is_folder=is_folder):
                break
            if done == whole:
                yield from self._folder(done, rules) if is_folder else self._file(done)
            elif is_folder:
                rules = self._inside(done, rules, _names(self._root / os.fsdecode(done)))
            else:
                return
        yield from self._tracked(whole)

    def _folder(self, path: bytes, rules: Rules, *, is_root: bool = False) -> Iterator[Found]:
        stack = [(path, rules)]
        while stack:
            path, rules = stack.pop()
            try:
                with os.scandir(self._root / os.fsdecode(path)) as opened:
                    entries = sorted(opened, key=lambda entry: entry.name)
            except OSError:
                continue  # it went, or we may not
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
                elif entry.is_file(follow_symlinks=False) and (found := _found(below, entry)) is not None:
                    yield found
            stack.extend(reversed(folders))

    def _inside(self, path: bytes, rules: Rules, names: Sequence[str]) -> Rules:
        if ".git" in names:
            self._tops.append(path)
        return rules.inside(self._root / os.fsdecode(path), path, names)

    def _file(self, path: bytes) -> Iterator[Found]:
        known = stat_file(self._root, os.fsdecode(path))
        if known is not None:
            yield Found(os.fsdecode(path), known.st_size, known.st_mtime_ns, known.st_ctime_ns)

    def _tracked(self, path: bytes) -> Iterator[Found]:
        """Files here that a rule of git's matches and that are in its index: git does not ignore those."""
        for top in self._tops:
            for name in tracked_though_ignored(self._root / os.fsdecode(top)):
                whole = top + b"/" + name if top else name
                is_here = not path or whole == path or whole.startswith(path + b"/")
                if is_here and not self._start.is_ignored_by_us(whole):
                    yield from self._file(whole)


def is_in_repository(root: Path) -> bool:
    """Whether a folder belongs to a git repository."""
    return any((folder / ".git").exists() for folder in (root, *root.parents))


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []


def stat_file(root: Path, path: str) -> os.stat_result | None:
    """What is known of an ordinary file below the root, with no link on the way; None when it is none."""
    try:
        descriptor = open_below(root, path)
    except OSError:
        return None
    try:
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def _found(path: bytes, entry: os.DirEntry[str]) -> Found | None:
    try:
        known = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return Found(os.fsdecode(path), known.st_size, known.st_mtime_ns, known.st_ctime_ns)


def open_below(root: Path, path: str) -> int:
    """A descriptor of an ordinary file below the root; raises OSError if it is none, or a link is on the way.

    Folders are entered one by one: one that is made a link while we look leads nowhere.
    """
    *folders, name = path.split("/")
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            if folder in ("", ".", ".."):
                raise NotADirectoryError(path)
            below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = below
        if name in ("", ".", ".."):
            raise IsADirectoryError(path)
        # Without O_NONBLOCK opening a pipe would wait for somebody to write.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=here)
    finally:
        os.close(here)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(f"{path} is no ordinary file")
    return file


def read_below(root: Path, path: str, max_bytes: int) -> tuple[bytes, os.stat_result]:
    """The bytes of a file, too many if it has more, and what was known of it before they were read."""
    descriptor = open_below(root, path)
    try:
        known = os.fstat(descriptor)
        content = b""
        wanted = min(known.st_size + _MAY_HAVE_GROWN_BYTES, max_bytes + 1)
        while len(content) <= max_bytes and (more := os.read(descriptor, wanted)):
            content += more
        return content, known
    finally:
        os.close(descriptor)
