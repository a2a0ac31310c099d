"""The folder of a worker's socket, which only this user can enter; what dead programs left is deleted."""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_PREFIX = "weft-model-"
_LOCK = "lock"
_MAX_FOLDER = 60


class PrivateFolder:
    """A folder of this process: while it lives it holds a lock in it, which the kernel lets go of."""

    def __init__(self) -> None:
        """Make it. Raises OSError."""
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_short_folder()))
        # The lock has its name only when it is held: whoever sweeps never finds one that is not held yet.
        new = self.path / f"{_LOCK}.new"
        self._lock = new.open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        new.rename(self.path / _LOCK)

    def remove(self) -> None:
        """Delete it. Nothing happens the second time."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def sweep() -> None:
    """Delete the folders of this user's programs that were killed together with their workers."""
    for path in Path(_short_folder() or tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        with suppress(OSError):  # it is another's, or has just gone
            _remove_if_dead(path)


def _remove_if_dead(path: Path) -> None:
    if path.lstat().st_uid != os.getuid():
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while its program lives
        shutil.rmtree(path.parent, ignore_errors=True)
    finally:
        os.close(descriptor)


def _short_folder() -> str | None:
    """Where temporary folders go, unless a socket's path there would be longer than the system takes."""
    return None if len(tempfile.gettempdir()) < _MAX_FOLDER else "/tmp"  # noqa: S108
