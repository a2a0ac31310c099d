"""Locations and permissions of weft's files: the cache of downloaded models, and the user's databases."""

import errno
import os
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

STORE_FOLDER = ".weft"
"""Folder of a project's store and index. Only weft creates folders of this name."""

_OLD_FILE_MODE, _OLD_FOLDER_MODE = 0o644, 0o755
"""Modes that earlier versions gave to files and folders. Other modes were set by the user, and are kept."""

_SUFFIXES = ("", "-wal", "-shm", "-journal")
"""Suffixes of a database and of the files that SQLite creates beside it, with the mode of the database."""

_MAGIC_BYTES = (
    b"SQLite format 3\0",
    b"\x37\x7f\x06\x82",
    b"\x37\x7f\x06\x83",
    (3_007_000).to_bytes(4, sys.byteorder),
)
"""First bytes of a SQLite database, of its write-ahead log in either byte order, and of the log's index."""


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return `WEFT_CACHE`, or weft's folder in the user's cache folder."""
    if given := environment.get("WEFT_CACHE"):
        return Path(given)
    if given := environment.get("XDG_CACHE_HOME"):
        return Path(given) / "weft"
    return Path.home() / ".cache" / "weft"


def keep_private(file: Path, *, is_shared: bool = False) -> None:
    """Create the file of a database and its folder for this user only; with `is_shared`, for its group too.

    Without `is_shared`, tighten modes that earlier versions set. Raise OSError if no folder can be created.
    """
    if not file.parent.is_dir():
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_shared:
            file.parent.chmod(0o2770)  # not in `mode`: the umask would remove the group's rights
    file = file.resolve()  # SQLite would create the target of a link readable for everybody
    with suppress(OSError):  # it exists, or the next open tells why it cannot be created
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            if is_shared:
                os.fchmod(descriptor, 0o660)
        finally:
            os.close(descriptor)
    if is_shared:
        return
    for suffix in _SUFFIXES:
        _tighten(file.with_name(file.name + suffix), _OLD_FILE_MODE, 0o600)
    if file.parent.name == STORE_FOLDER:
        _tighten(file.parent, _OLD_FOLDER_MODE, 0o700)


def _tighten(path: Path, old: int, new: int) -> None:
    with suppress(OSError):
        found = path.stat()
        if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == old:
            path.chmod(new)


def exposure(file: Path, *, is_shared: bool = False) -> str | None:
    """Return a warning if other users can access a database; None if they cannot, or it is missing.

    With `is_shared`, the file's group may access it.
    """
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


def find_open_databases() -> set[tuple[int, int]]:
    """Return the device and inode of each database file that this process has open.

    Logs of databases are included. No other code of this process may open these files: closing a file drops
    all POSIX locks that the process holds on it. Another process could then write to the database during a
    transaction of this process, or remove its log.
    """
    found = set()
    with suppress(OSError):  # the folder does not exist
        for descriptor in map(int, os.listdir("/dev/fd")):  # noqa: PTH208 - fast: called for every read
            with suppress(OSError):  # closed by now, or write-only
                known = os.fstat(descriptor)
                if stat.S_ISREG(known.st_mode) and os.pread(descriptor, 16, 0).startswith(_MAGIC_BYTES):
                    found.add(identity(known))
    return found


def identity(found: os.stat_result) -> tuple[int, int]:
    """Return the device and inode of a file, which identify it regardless of its name."""
    return found.st_dev, found.st_ino


def read_start(path: Path, max_bytes: int) -> bytes:
    """Return the first `max_bytes` bytes of a file. Raise OSError for a pipe, a device or an open database.

    Reading a pipe or a device could block, or never end. Only pipes that a shell made for this process
    (`/dev/stdin`, `<(...)`) are read.
    """
    if identity(path.stat()) in find_open_databases():
        raise OSError(errno.EBUSY, "it belongs to a database that weft has open", str(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # opening a named pipe would block
    with os.fdopen(descriptor, "rb") as file:
        is_handed_over = str(path).startswith(("/dev/stdin", "/dev/fd/", "/proc/self/fd/"))
        if not stat.S_ISREG(os.fstat(descriptor).st_mode) and not is_handed_over:
            reason = "not an ordinary file but a pipe or a device; give a file, or - for standard input"
            raise OSError(errno.EINVAL, reason, str(path))
        os.set_blocking(descriptor, True)
        return file.read(max_bytes)
