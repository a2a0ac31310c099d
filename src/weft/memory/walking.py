"""The files below a root that are not ignored, and their bytes. No link is followed."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from weft.memory.ignore_rules import Rules, rules_of, tracked_though_ignored


class Found(Struct, frozen=True, array_like=True):
    """A file as the walk sees it."""

    path: str
    """Relative to the root, with `/`; bytes that are no UTF-8 are kept as half surrogates."""
    size: int
    mtime_ns: int
    ctime_ns: int


def walk(root: Path, extra: Sequence[str] = ()) -> Iterator[Found]:
    """Every file of a root that git, `.weftignore` and the extra patterns leave in."""
    seen_ignored: list[tuple[Path, bytes]] = []
    stack: list[tuple[Path, bytes, Rules | None]] = [(root, b"", None)]
    start = rules_of(root, extra)
    tops = [(root, b"")] if _repository(root) else []
    while stack:
        folder, path, rules = stack.pop()
        try:
            with os.scandir(folder) as opened:
                entries = sorted(opened, key=lambda entry: entry.name)
        except OSError:
            continue
        if rules is None:
            own = start
        else:
            own = rules.inside(folder, path, [entry.name for entry in entries])
            if any(entry.name == ".git" for entry in entries):
                tops.append((folder, path))
        folders = []
        for entry in entries:
            below = (path + b"/" if path else b"") + os.fsencode(entry.name)
            is_folder = entry.is_dir(follow_symlinks=False)
            if own.is_ignored(below, is_folder=is_folder):
                if not is_folder:
                    seen_ignored.append((folder, below))
            elif is_folder:
                folders.append((folder / entry.name, below, own))
            elif entry.is_file(follow_symlinks=False):
                found = _found(below, entry)
                if found is not None:
                    yield found
        stack.extend(reversed(folders))
    for top, path in tops:
        yield from _tracked(top, path)


def _repository(root: Path) -> bool:
    return any((folder / ".git").exists() for folder in (root, *root.parents))


def _tracked(top: Path, path: bytes) -> Iterator[Found]:
    """Files that a rule matches and git has in its index: they count."""
    for name in tracked_though_ignored(top):
        found = stat_file(top, os.fsdecode(name))
        if found is not None and not any(part in (b".git", b".weft") for part in name.split(b"/")):
            whole = os.fsdecode((path + b"/" if path else b"") + name)
            yield Found(whole, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


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


def read_below(root: Path, path: str, max_bytes: int) -> tuple[bytes, os.stat_result] | None:
    """The bytes of a file and what was known of it before they were read; None when there are more."""
    with os.fdopen(open_below(root, path), "rb") as file:
        known = os.fstat(file.fileno())
        content = file.read(max_bytes + 1)
    return None if len(content) > max_bytes else (content, known)
