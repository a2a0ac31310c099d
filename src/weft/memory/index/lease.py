"""One process at a time updates a root: a row says which, and until when it is taken to be alive."""

import os
import secrets
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Self

from weft.memory.errors import IndexBusy, LeaseLost
from weft.memory.index.database import connect, require_shape, transaction

LEASE_SECONDS = 15.0
WAIT_SECONDS = 600.0
"""How long to wait for another process that is at it."""

RENEW_SECONDS = 4.0
"""How often a lease is renewed while nothing is written: files are looked for, or prepared."""

SAY_SECONDS = 1.0
"""How long to wait for another process before that is said."""

_LOOK_SECONDS = 0.05

_RENEW = "UPDATE memory_roots SET lease_until = ? WHERE id = ? AND lease_owner = ?"


class Lease:
    """The right to update a root. Every batch of writes renews it, and fails when it is lost."""

    def __init__(self, connection: sqlite3.Connection, root_id: int, root: str, owner: str) -> None:
        self._connection = connection
        self.root_id = root_id
        self._root = root
        self._owner = owner

    @classmethod
    def take(
        cls,
        connection: sqlite3.Connection,
        root: str,
        *,
        wait_seconds: float = WAIT_SECONDS,
        on_wait: Callable[[str], None] | None = None,
    ) -> Self:
        """The lease of a root, which is made if it is new; waits while another process has it.

        `on_wait` is told the root, once, when that takes long.
        """
        owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"
        begun = time.monotonic()
        while True:
            root_id = _try(connection, root, owner)
            if root_id is not None:
                return cls(connection, root_id, root, owner)
            waited = time.monotonic() - begun
            if waited >= wait_seconds:
                raise IndexBusy(root)
            if on_wait is not None and waited >= SAY_SECONDS:
                on_wait(root)
                on_wait = None
            time.sleep(_LOOK_SECONDS)

    def renew(self) -> None:
        """Say that we are alive; within a transaction, whose writes are kept only if the lease is ours."""
        require_shape(self._connection)
        if not self._renew(self._connection):
            raise LeaseLost(self._root)

    @contextmanager
    def kept(self, path: Path) -> Iterator[None]:
        """Renew the lease from time to time, by a connection of its own, also while nothing is written."""
        over = threading.Event()
        thread = threading.Thread(target=self._keep, args=(path, over), name="weft-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _keep(self, path: Path, over: threading.Event) -> None:
        while not over.wait(RENEW_SECONDS):
            # What goes wrong here shows, if it matters, with the next write.
            with suppress(sqlite3.Error), closing(connect(path)) as connection:
                connection.execute("PRAGMA busy_timeout = 1000")
                if not self._renew(connection):
                    return

    def _renew(self, connection: sqlite3.Connection) -> bool:
        until = time.time() + LEASE_SECONDS
        return connection.execute(_RENEW, [until, self.root_id, self._owner]).rowcount == 1

    def give_back(self) -> None:
        """Let another process have it."""
        self._connection.execute(
            "UPDATE memory_roots SET lease_owner = NULL, lease_until = 0 WHERE id = ? AND lease_owner = ?",
            [self.root_id, self._owner],
        )


def _try(connection: sqlite3.Connection, root: str, owner: str) -> int | None:
    if _is_held(connection, root):
        return None  # without a write, which would wait for those of the holder
    with transaction(connection):
        require_shape(connection)
        if _is_held(connection, root):
            return None
        connection.execute("INSERT OR IGNORE INTO memory_roots (path) VALUES (?)", [root])
        connection.execute(
            "UPDATE memory_roots SET lease_owner = ?, lease_until = ? WHERE path = ?",
            [owner, time.time() + LEASE_SECONDS, root],
        )
        row = connection.execute("SELECT id FROM memory_roots WHERE path = ?", [root]).fetchone()
        return int(row[0])


def _is_held(connection: sqlite3.Connection, root: str) -> bool:
    row = connection.execute(
        "SELECT lease_owner, lease_until FROM memory_roots WHERE path = ? AND lease_owner IS NOT NULL", [root]
    ).fetchone()
    if row is None:
        return False
    holder, until = row
    now = time.time()
    # Further ahead than any lease reaches: the clock was set back.
    return now < until <= now + 2 * LEASE_SECONDS and not _is_dead(holder)


def _is_dead(owner: str) -> bool:
    """Whether the process is known to have ended: one of this machine whose number nobody has."""
    host, pid, _ = owner.rsplit(":", 2)
    if host != socket.gethostname():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
