"""Leases on roots: one process at a time updates a root, until its lease expires."""

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
"""How long to wait for another process that updates the same root."""

RENEW_SECONDS = 4.0
"""Interval of renewals by the background thread, for times when nothing is written."""

SAY_SECONDS = 1.0
"""How long to wait for another process's lease before `on_wait` is called."""

_POLL_SECONDS = 0.05

_RENEW = "UPDATE memory_roots SET lease_until = ? WHERE id = ? AND lease_owner = ?"


class Lease:
    """The right to update a root. Each transaction renews the lease, and fails if it is lost."""

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
        """Acquire the lease of a root; wait while another process has it. A new root is added to the index.

        `on_wait` is called once with the root if the wait is long. Raise IndexBusy after `wait_seconds`.
        """
        owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"
        begun = time.monotonic()
        while True:
            root_id = _try_acquire(connection, root, owner)
            if root_id is not None:
                return cls(connection, root_id, root, owner)
            waited = time.monotonic() - begun
            if waited >= wait_seconds:
                raise IndexBusy(root)
            if on_wait is not None and waited >= SAY_SECONDS:
                on_wait(root)
                on_wait = None
            time.sleep(_POLL_SECONDS)

    def renew(self) -> None:
        """Renew the lease inside a transaction. Raise LeaseLost if it is lost, which rolls that back."""
        require_shape(self._connection)
        if not self._renew(self._connection):
            raise LeaseLost(self._root)

    @contextmanager
    def kept(self, path: Path) -> Iterator[None]:
        """Renew the lease periodically in a background thread with its own connection."""
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
            # An error that matters shows up again at the next write.
            with suppress(sqlite3.Error), closing(connect(path)) as connection:
                connection.execute("PRAGMA busy_timeout = 1000")
                if not self._renew(connection):
                    return

    def _renew(self, connection: sqlite3.Connection) -> bool:
        until = time.time() + LEASE_SECONDS
        return connection.execute(_RENEW, [until, self.root_id, self._owner]).rowcount == 1

    def release(self) -> None:
        self._connection.execute(
            "UPDATE memory_roots SET lease_owner = NULL, lease_until = 0 WHERE id = ? AND lease_owner = ?",
            [self.root_id, self._owner],
        )


def _try_acquire(connection: sqlite3.Connection, root: str, owner: str) -> int | None:
    """Acquire the lease and return the id of the root; None if another process has the lease."""
    if _is_held(connection, root):
        return None  # checked before the transaction, which would wait for the holder's writes
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
    # A lease that expires later than any lease could was taken before the clock was set back.
    return now < until <= now + 2 * LEASE_SECONDS and not _is_dead(holder)


def _is_dead(owner: str) -> bool:
    """Return True if the owner is a process of this machine that no longer exists."""
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
