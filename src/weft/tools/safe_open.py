"""Open a path from outside without ever leaving the folders it may be in.

Each part is opened on its own, relative to the folder that was opened before it, with O_NOFOLLOW; a link is
read and its target followed in the same way, `..` goes back to a folder that is held open. So there is no
moment between a check and a use: whoever swaps a folder for a link while we walk is seen, or comes too
late. (Resolving a path first and opening it then has that moment; asking /proc/self/fd after opening says
where a file was, not how it was reached, and has opened a FIFO or a device by then.)
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from os import makedev
from pathlib import Path
from types import TracebackType
from typing import Self

from weft.config.paths import identity, open_databases
from weft.errors import RequestError
from weft.tasks.parsing.problems import shown

_KINDS = frozenset(
    {
        "bpf", "binfmt_misc", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs",
        "mqueue", "nsfs", "proc", "pstore", "securityfs", "selinuxfs", "sysfs", "tracefs",
    }
)  # fmt: skip


def is_of_the_kernel(device: int) -> bool:
    """Whether files of that device (`st_dev`) are none that a program stored there."""
    return device in _kernel_devices()


@cache
def _kernel_devices() -> frozenset[int]:
    """Asked once: such file systems are mounted when a machine or a container starts."""
    try:
        lines = Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return frozenset()  # No Linux: there are no such file systems.
    found = set()
    for line in lines:
        # id parent major:minor root place options... - type source options
        before, _, after = line.partition(" - ")
        if after.partition(" ")[0] in _KINDS:
            major, _, minor = before.split(" ")[2].partition(":")
            found.add(makedev(int(major), int(minor)))
    return frozenset(found)


MAX_PATH_BYTES = 4096
"""As long as the kernel takes: PATH_MAX."""

MAX_NAME_BYTES = 255
"""As long as file systems take: NAME_MAX."""

MAX_DEPTH = 100
"""Deepest folder: each level holds a file descriptor while a path is walked."""

MAX_LINKS = 40
"""Links on the way, as the kernel counts: a link may lead to itself."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class PathRefused(RequestError):
    """A path leads where nothing may be read or written."""

    code = "path-refused"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"'{shown(path)}' is refused: {reason}")
        self.path = path
        self.reason = reason


class FileUnavailable(RequestError):
    """A file inside the roots could not be read or written: it is not there, no file, not permitted."""

    code = "file-unavailable"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"'{shown(path)}': {reason}")
        self.path = path
        self.reason = reason


def parts_of(path: str) -> list[str]:
    """The parts of a path, checked; raises PathRefused. `..` stays, empty parts and `.` go."""
    if not path:
        raise PathRefused(path, "it is empty")
    if "\0" in path:
        raise PathRefused(path, "it has a NUL character")
    try:
        size = len(os.fsencode(path))
    except UnicodeEncodeError:
        raise PathRefused(path, "it has half of a surrogate pair") from None
    if size > MAX_PATH_BYTES:
        raise PathRefused(path, f"it is longer than {MAX_PATH_BYTES} bytes")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if any(len(os.fsencode(part)) > MAX_NAME_BYTES for part in parts):
        raise PathRefused(path, f"a name in it is longer than {MAX_NAME_BYTES} bytes")
    return parts


class Walk:
    """Folders held open from a root down to where a path has come. Leaving the `with` block closes them."""

    def __init__(self, path: str, places: Mapping[Path, Path], *, is_closed: Callable[[str], bool]) -> None:
        self._path = path
        self._places = places
        """The roots, by each name they have; and where they really are."""
        self._is_closed = is_closed
        self._open: list[int] = []
        self._links = 0
        self.root = Path()
        """Where the path began."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    @property
    def folder(self) -> int:
        """The descriptor of the folder that was reached."""
        return self._open[-1]

    def enter_root(self, root: Path) -> None:
        """Begin anew at a root."""
        self._close()
        try:
            descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise FileUnavailable(self._path, f"the root folder {root}: {error.strerror}") from None
        self.root = root
        self._enter(descriptor)

    def begin(self, path: str) -> list[str]:
        """Enter the root that an absolute path begins with; the parts that are left to go."""
        parts = parts_of(path)
        inside = [(names, place) for names, place in self._named() if names == parts[: len(names)]]
        if not inside:
            raise PathRefused(self._path, "it leads out of the roots")
        # The outermost: a path may go from one root to another that has it inside.
        names, place = min(inside, key=lambda root: len(root[0]))
        self.enter_root(place)
        return parts[len(names) :]

    def _named(self) -> list[tuple[list[str], Path]]:
        return [(list(name.parts[1:]), place) for name, place in self._places.items()]

    def go_to(self, parts: Sequence[str]) -> str | None:
        """Follow the parts, links too; the name of the last one if it is no folder, None if it is one.

        A last part that is not there is no folder either: who opens it will see.
        """
        left = deque(parts)
        while left:
            name = left.popleft()
            if name == "..":
                self._leave()
                continue
            self._check_name(name)
            try:
                self._enter(os.open(name, _FOLDER, dir_fd=self.folder))
            except OSError as error:
                target = self._link_target(name, error)
                if target is not None:
                    left.extendleft(reversed(self._follow(target)))
                elif left:
                    raise FileUnavailable(self._path, _words(error)) from None
                elif error.errno in (errno.ENOTDIR, errno.ENOENT):
                    return name
                else:
                    raise FileUnavailable(self._path, _words(error)) from None
        return None

    def make(self, parts: Sequence[str]) -> None:
        """Follow the parts, none of which may be a link, and make the folders that are not there."""
        for name in parts:
            self._check_name(name)
            with suppress(FileExistsError):
                self._make_folder(name)
            try:
                self._enter(os.open(name, _FOLDER, dir_fd=self.folder))
            except OSError as error:
                if self._link_target(name, error) is not None:
                    raise PathRefused(
                        self._path, f"'{shown(name)}' is a link, and nothing is written through links"
                    ) from None
                raise FileUnavailable(self._path, _words(error)) from None

    def _check_name(self, name: str) -> None:
        if self._is_closed(name):
            raise PathRefused(self._path, f"'{shown(name)}' is closed to tools")

    def _make_folder(self, name: str) -> None:
        try:
            os.mkdir(name, dir_fd=self.folder)
        except FileExistsError:
            raise
        except OSError as error:
            raise FileUnavailable(self._path, _words(error)) from None

    def _link_target(self, name: str, error: OSError) -> str | None:
        """Where the link of that name leads; None when it is none."""
        if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
            return None
        try:
            return os.readlink(name, dir_fd=self.folder)
        except OSError:
            return None

    def _follow(self, target: str) -> list[str]:
        """The parts that stand for a link; an absolute one goes on from the root that has it."""
        self._links += 1
        if self._links > MAX_LINKS:
            raise PathRefused(self._path, f"there are more than {MAX_LINKS} links on the way")
        if not target.startswith("/"):
            return parts_of(target)
        return self.begin(target)

    def _enter(self, descriptor: int) -> None:
        self._open.append(descriptor)
        if is_of_the_kernel(os.fstat(descriptor).st_dev):
            raise PathRefused(self._path, "it is in a file system of the kernel")
        if len(self._open) > MAX_DEPTH:
            raise PathRefused(self._path, f"it is more than {MAX_DEPTH} folders deep")

    def _leave(self) -> None:
        if len(self._open) == 1:
            raise PathRefused(self._path, "it leads out of the roots")
        os.close(self._open.pop())

    def _close(self) -> None:
        while self._open:
            os.close(self._open.pop())


def open_file(walk: Walk, name: str, path: str) -> int:
    """A descriptor to read an ordinary file in the folder that was reached.

    What it is is asked before it is opened, since opening can wait (a FIFO) or do something (a device, a
    database that we use), and again afterwards, since it may have been swapped; O_NONBLOCK is for that
    moment.
    """
    try:
        found = os.stat(name, dir_fd=walk.folder, follow_symlinks=False)
        _check_ordinary(found, path)
        if identity(found) in open_databases():
            raise PathRefused(path, "it belongs to a database that weft has open")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=walk.folder)
    except OSError as error:
        raise FileUnavailable(path, _words(error)) from None
    try:
        _check_ordinary(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_ordinary(found: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise FileUnavailable(path, "it is a folder")
    if not stat.S_ISREG(found.st_mode) or is_of_the_kernel(found.st_dev):
        raise PathRefused(path, "it is no ordinary file")


def _words(error: OSError) -> str:
    match error.errno:
        case errno.ENOENT:
            return "there is no such file or folder"
        case errno.ENOTDIR:
            return "a part of the path is no folder"
        case errno.ELOOP:
            return "it was swapped for a link while it was opened"
        case _:
            return (error.strerror or str(error)).lower()
