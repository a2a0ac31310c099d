"""Who a worker is: a new name for each life of a process, by which neighbours can tell that it died."""

import hashlib
import os
import socket
import uuid
from functools import cache
from pathlib import Path


def new_worker_id() -> str:
    """A name no worker had before: host, place, process, chance."""
    return f"{socket.gethostname()}:{_place()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


def is_dead_here(worker: str) -> bool:
    """Whether the worker was a process of this very machine that is gone: nobody need wait for its lease.

    A process id that has been given to another process counts as alive; then the lease decides.
    """
    *_, place, process, _ = ["", "", *worker.rsplit(":", 3)]
    if place != _place() or not process.isdigit():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False  # it lives, under another user
    return False


@cache
def _place() -> str:
    """What processes share that can see each other: this boot of this machine, and the space of their ids."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = Path("/proc/self/ns/pid").readlink()
    except OSError:  # no Linux: nobody is known to be dead before the lease runs out
        return uuid.uuid4().hex[:12]
    return hashlib.sha256(f"{boot} {space}".encode()).hexdigest()[:12]
