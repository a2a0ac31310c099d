"""Who a worker is: a new name for each life of a process, by which neighbours can tell that it died."""

import hashlib
import os
import socket
import uuid
from enum import Enum
from functools import cache
from pathlib import Path


def new_worker_id() -> str:
    """A name no worker had before: host, place, process, chance."""
    return f"{socket.gethostname()}:{_place()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


class Life(Enum):
    """What can be seen of a worker's process from here."""

    UNKNOWN = "unknown"
    """It is on another machine or in another container: its lease decides."""
    DEAD = "dead"
    FROZEN = "frozen"
    """Stopped by a signal or a debugger; it may run again."""
    RUNNING = "running"


def life_of(worker: str) -> Life:
    """Look at the worker's process, if it is one of this very machine.

    A zombie is dead: it only waits for its parent. A process id that has been given to another process
    counts as running.
    """
    *_, place, process, _ = ["", "", *worker.rsplit(":", 3)]
    if place != _place() or not process.isdigit():
        return Life.UNKNOWN
    try:
        # The name in parentheses may hold anything; the state comes after the last of them.
        state = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return Life.DEAD
    except (OSError, IndexError):
        return Life.UNKNOWN
    if state in (b"Z", b"X", b"x"):
        return Life.DEAD
    return Life.FROZEN if state in (b"T", b"t") else Life.RUNNING


def is_dead_here(worker: str) -> bool:
    """Whether the worker was a process of this very machine that is gone: nobody need wait for its lease."""
    return life_of(worker) is Life.DEAD


@cache
def _place() -> str:
    """What processes share that can see each other: this boot of this machine, and the space of their ids."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = Path("/proc/self/ns/pid").readlink()
    except OSError:  # no Linux: nobody is known to be dead before the lease runs out
        return uuid.uuid4().hex[:12]
    return hashlib.sha256(f"{boot} {space}".encode()).hexdigest()[:12]
