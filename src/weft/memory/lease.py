"""One process at a time updates a root: a row says which, and until when it is taken to be alive."""

import os
import secrets
import socket
import sqlite3
import time
from typing import Self

from weft.memory.database import transaction
from weft.memory.errors import IndexBusy, LeaseLost

LEASE_SECONDS = 15.0
WAIT_SECONDS = 600.0
"""How long to wait for another process that is at it."""

_LOOK_SECONDS = 0.05


class Lease:
    """The right to update a root. Every batch of writes renews it, and fails when it is lost."""

    def __init__(self, connection: sqlite3.Connection, root_id: int, root: str, owner: str) -> None:
        self._connection = connection
        self.root_id = root_id
        self._root = root
        self._owner = owner

    @classmethod
    def take(cls, connection: sqlite3.Connection, root: str, *, wait_seconds: float = WAIT_SECONDS) -> Self:
        """The lease of a root, which is made if it is new; waits while another process has it."""
        owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"
        deadline = time.monotonic() + wait_seconds
        while True:
            root_id = _try(connection, root, owner)
            if root_id is not None:
                return cls(connection, root_id, root, owner)
            if time.monotonic() >= deadline:
                raise IndexBusy(root)
            time.sleep(_LOOK_SECONDS)

    def renew(self) -> None:
        """Say that we are alive; within a transaction, whose writes are kept only if the lease is ours."""
        renewed = self._connection.execute(
            "UPDATE memory_roots SET lease_until = ? WHERE id = ? AND lease_owner = ?",
            [time.time() + LEASE_SECONDS, self.root_id, self._owner],
        )
        if renewed.rowcount != 1:
            raise LeaseLost(self._root)

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
