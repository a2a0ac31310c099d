"""One aider at a time in a work tree: two would commit each other's edits, and tell them as their own."""

import asyncio
import errno
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

LOOK_SECONDS = 0.1
"""How often somebody who waits for a work tree looks whether it is free."""


@asynccontextmanager
async def sole_use(folder: Path) -> AsyncIterator[None]:
    """Hold a work tree, or a folder that is in none, for the block; others wait, in other processes too.

    The lock is on the folder itself: no file is left behind, and the kernel lets go of it when we die.
    """
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        while not _is_ours(held):  # noqa: ASYNC110 - another process may hold it, and tells nobody
            await asyncio.sleep(LOOK_SECONDS)
        yield
    finally:
        os.close(held)


def _is_ours(held: int) -> bool:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # A file system that has no such locks must not keep anybody from working.
        return error.errno not in (errno.EWOULDBLOCK, errno.EINTR)
    return True
