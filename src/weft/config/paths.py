"""Where weft keeps files, and who may read them: models that can be fetched again, databases of this user."""

import errno
import os
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

STORE_FOLDER = ".weft"
"""The folder of a project's own store and index. Only weft makes one of that name."""

_OLD_FILE, _OLD_FOLDER = 0o644, 0o755
"""What earlier versions made under the usual umask. Another mode is somebody's choice, and is kept."""

_BESIDE = ("", "-wal", "-shm", "-journal")
"""SQLite gives what it puts beside a database the mode of the database."""

_HEADS = (
    b"SQLite format 3\0",
    b"\x37\x7f\x06\x82",
    b"\x37\x7f\x06\x83",
    (3_007_000).to_bytes(4, sys.byteorder),
)
"""How a database of SQLite begins, its log in either byte order, and the index of its log."""


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """`WEFT_CACHE`, else weft's folder in the user's cache folder."""
    if given := environment.get("WEFT_CACHE"):
        return Path(given)
    if given := environment.get("XDG_CACHE_HOME"):
        return Path(given) / "weft"
    return Path.home() / ".cache" / "weft"


def keep_private(file: Path, *, is_shared: bool = False) -> None:
    """Make the file of a database, and its folder, for this user alone; with `is_shared` for its group too.

    What an earlier version of weft left open to everybody is closed. Raises OSError when there is no folder.
    """
    if not file.parent.is_dir():
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_shared:
            file.parent.chmod(0o2770)  # not in `mode`, of which the umask takes away the group's rights
    file = file.resolve()  # where a link leads, SQLite would make the file for everybody
    with suppress(OSError):  # it exists, or the next open says why it cannot be made
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            if is_shared:
                os.fchmod(descriptor, 0o660)
        finally:
            os.close(descriptor)
    if is_shared:
        return
    for suffix in _BESIDE:
        _tighten(file.with_name(file.name + suffix), _OLD_FILE, 0o600)
    if file.parent.name == STORE_FOLDER:
        _tighten(file.parent, _OLD_FOLDER, 0o700)


def _tighten(path: Path, old: int, new: int) -> None:
    with suppress(OSError):
        found = path.stat()
        if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == old:
            path.chmod(new)


def exposure(file: Path, *, is_shared: bool = False) -> str | None:
    """Return who besides this user can reach a database, as a warning; None when nobody can."""
    try:
        file = file.resolve()
        mode, folder = stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)
    except OSError:
        return None
    everybody = mode & (stat.S_IROTH | stat.S_IWOTH) and folder & stat.S_IXOTH
    group = mode & (stat.S_IRGRP | stat.S_IWGRP) and folder & stat.S_IXGRP
    if folder & stat.S_IWOTH and not folder & stat.S_ISVTX:
        return f"other users can replace it (mode {folder:04o} of its folder): chmod 700 {file.parent}"
    if everybody:
        return f"other users can read it (mode {mode:04o}): chmod 600 {file}"
    if group and not is_shared:
        return (
            f"its group can read it (mode {mode:04o}): chmod 600 {file}, or set [store] shared = true "
            "in weft.toml"
        )
    return None


def open_databases() -> set[tuple[int, int]]:
    """Return the device and inode of every file of a database that this process has open.

    Nothing else may open those: closing a file drops all locks that the process has on it (that is how POSIX
    locks work), and another process could then write into a transaction of ours, or remove its log.
    """
    found = set()
    with suppress(OSError):  # there is no such folder
        for descriptor in map(int, os.listdir("/dev/fd")):  # noqa: PTH208 - before every file that is read
            with suppress(OSError):  # it is closed by now, or only written
                known = os.fstat(descriptor)
                if stat.S_ISREG(known.st_mode) and os.pread(descriptor, 16, 0).startswith(_HEADS):
                    found.add(identity(known))
    return found


def identity(found: os.stat_result) -> tuple[int, int]:
    """Return what tells a file from all others, whatever name it has."""
    return found.st_dev, found.st_ino


def read_start(path: Path, max_bytes: int) -> bytes:
    """Return the first bytes of a file. Raise OSError for what is not an ordinary file: it may never end, or
    never begin. Pipes that a shell made for this process (`/dev/stdin`, `<(...)`) are read."""
    if identity(path.stat()) in open_databases():
        raise OSError(errno.EBUSY, "it belongs to a database that weft has open", str(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a named pipe would be waited for
    with os.fdopen(descriptor, "rb") as file:
        is_handed_over = str(path).startswith(("/dev/stdin", "/dev/fd/", "/proc/self/fd/"))
        if not stat.S_ISREG(os.fstat(descriptor).st_mode) and not is_handed_over:
            reason = "not an ordinary file but a pipe or a device; give a file, or - for standard input"
            raise OSError(errno.EINVAL, reason, str(path))
        os.set_blocking(descriptor, True)
        return file.read(max_bytes)
