"""Opens untrusted paths without leaving the folders that they may be in.

Each part is opened with O_NOFOLLOW relative to the folder opened before. The target of a link is followed in
the same way, and `..` returns to a folder that is still open. So there is no time between check and use:
replacing a folder by a link meanwhile is either noticed or comes too late. (Resolving a path first and then
opening it has such a race. Checking /proc/self/fd after opening shows where a file was, not how it was
reached, and a FIFO or a device has been opened by then.)
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

from weft.config.paths import find_open_databases, identity
from weft.errors import RequestError
from weft.limits import decode_text
from weft.tasks.parsing.problems import shown

_KERNEL_FILE_SYSTEMS = frozenset(
    {
        "bpf", "binfmt_misc", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs",
        "mqueue", "nsfs", "proc", "pstore", "securityfs", "selinuxfs", "sysfs", "tracefs",
    }
)  # fmt: skip


@cache
def _kernel_devices() -> frozenset[int]:
    """Return the devices (`st_dev`) of the pseudo file systems of the kernel, such as /proc."""
    # Cached, because such file systems are mounted when a machine or a container starts.
    try:
        lines = decode_text(Path("/proc/self/mountinfo").read_bytes()).splitlines()
    except OSError:
        return frozenset()  # not Linux
    found = set()
    for line in lines:
        # id parent major:minor root mountpoint options... - type source options
        before, _, after = line.partition(" - ")
        if after.partition(" ")[0] in _KERNEL_FILE_SYSTEMS:
            major, _, minor = before.split(" ")[2].partition(":")
            found.add(makedev(int(major), int(minor)))
    return frozenset(found)


MAX_PATH_BYTES = 4096
"""Limit of the kernel: PATH_MAX."""

MAX_NAME_BYTES = 255
"""Limit of file systems: NAME_MAX."""

MAX_DEPTH = 100
"""Maximum depth of a folder: each level holds a file descriptor while a path is walked."""

MAX_LINKS = 40
"""Maximum number of links in a path, as in the kernel: a link may point to itself."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class PathRefused(RequestError):
    """Access to a path is not allowed."""

    code = "path-refused"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"'{shown(path)}' is refused: {reason}")
        self.path = path
        self.reason = reason


class FileUnavailable(RequestError):
    """A file inside the roots cannot be read or written: it is missing, not a file, or not permitted."""

    code = "file-unavailable"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"'{shown(path)}': {reason}")
        self.path = path
        self.reason = reason


def parts_of(path: str) -> list[str]:
    """Split a path into its parts, without empty ones and `.`. Raise PathRefused if it is invalid."""
    if not path:
        raise PathRefused(path, "it is empty")
    if "\0" in path:
        raise PathRefused(path, "it has a NUL character")
    try:
        size = len(os.fsencode(path))
    except UnicodeEncodeError:
        raise PathRefused(path, "it has a lone surrogate") from None
    if size > MAX_PATH_BYTES:
        raise PathRefused(path, f"it is longer than {MAX_PATH_BYTES} bytes")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if any(len(os.fsencode(part)) > MAX_NAME_BYTES for part in parts):
        raise PathRefused(path, f"a name in it is longer than {MAX_NAME_BYTES} bytes")
    return parts


class Walk:
    """Open folders from a root down to the current position in a path; a context manager that closes them."""

    def __init__(self, path: str, roots: Mapping[Path, Path], *, is_closed: Callable[[str], bool]) -> None:
        self._path = path
        self._roots = roots
        """Resolved roots, by each path that they are known by."""
        self._is_closed = is_closed
        """Returns True for the name of a file or folder that tools may not access."""
        self._open: list[int] = []
        self._links = 0
        self.root = Path()
        """Root of the path."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    @property
    def folder(self) -> int:
        """Return the file descriptor of the current folder."""
        return self._open[-1]

    def enter_root(self, root: Path) -> None:
        """Close all folders and start at a root."""
        self._close()
        try:
            descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise FileUnavailable(self._path, f"the root folder {root}: {error.strerror}") from None
        self.root = root
        self._enter(descriptor)

    def begin(self, path: str) -> list[str]:
        """Enter the root of an absolute path. Return the parts below the root."""
        parts = parts_of(path)
        roots = [(list(known.parts[1:]), resolved) for known, resolved in self._roots.items()]
        inside = [(names, resolved) for names, resolved in roots if names == parts[: len(names)]]
        if not inside:
            raise PathRefused(self._path, "it leads out of the roots")
        # Use the outermost root: with nested roots, `..` may lead from the inner to the outer one.
        names, resolved = min(inside, key=lambda root: len(root[0]))
        self.enter_root(resolved)
        return parts[len(names) :]

    def go_to(self, parts: Sequence[str]) -> str | None:
        """Walk along the parts and links. Return the name of the last part, or None if it is a folder.

        The last part may not exist: opening it will raise.
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
                elif not left and error.errno in (errno.ENOTDIR, errno.ENOENT):
                    return name
                else:
                    raise FileUnavailable(self._path, _describe(error)) from None
        return None

    def make_folders(self, parts: Sequence[str]) -> None:
        """Walk along the parts, creating missing folders. Raise PathRefused for a link."""
        for name in parts:
            self._check_name(name)
            try:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=self.folder)
                self._enter(os.open(name, _FOLDER, dir_fd=self.folder))
            except OSError as error:
                if self._link_target(name, error) is not None:
                    raise PathRefused(
                        self._path, f"'{shown(name)}' is a link, and nothing is written through links"
                    ) from None
                raise FileUnavailable(self._path, _describe(error)) from None

    def _check_name(self, name: str) -> None:
        if self._is_closed(name):
            raise PathRefused(self._path, f"tools may not access '{shown(name)}'")

    def _link_target(self, name: str, error: OSError) -> str | None:
        """Return the target of a link, or None for other names; `error` is that of opening it as a folder."""
        if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
            return None
        try:
            return os.readlink(name, dir_fd=self.folder)
        except OSError:
            return None

    def _follow(self, target: str) -> list[str]:
        """Return the parts of a link's target; an absolute target restarts the walk at its root."""
        self._links += 1
        if self._links > MAX_LINKS:
            raise PathRefused(self._path, f"it has more than {MAX_LINKS} links")
        if not target.startswith("/"):
            return parts_of(target)
        return self.begin(target)

    def _enter(self, descriptor: int) -> None:
        self._open.append(descriptor)
        if os.fstat(descriptor).st_dev in _kernel_devices():
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
    """Open a regular file in the current folder of the walk for reading.

    The type is checked before opening, since opening can block (a FIFO) or have effects (a device, a database
    that this process uses), and again afterwards, since the file may have been replaced; O_NONBLOCK covers
    that case.
    """
    try:
        found = os.stat(name, dir_fd=walk.folder, follow_symlinks=False)
        _require_regular(found, path)
        if identity(found) in find_open_databases():
            raise PathRefused(path, "it belongs to a database that weft has open")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=walk.folder)
    except OSError as error:
        raise FileUnavailable(path, _describe(error)) from None
    try:
        _require_regular(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _require_regular(found: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise FileUnavailable(path, "it is a folder")
    if not stat.S_ISREG(found.st_mode) or found.st_dev in _kernel_devices():
        raise PathRefused(path, "it is not a regular file")


def _describe(error: OSError) -> str:
    match error.errno:
        case errno.ENOENT:
            return "there is no such file or folder"
        case errno.ENOTDIR:
            return "a part of the path is not a folder"
        case errno.ELOOP:
            return "it was replaced by a link while it was being opened"
        case _:
            return (error.strerror or str(error)).lower()
