"""The one thread that writes to a SQLite file."""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weft.store.group_commit import Done
from weft.store.requests import Request
from weft.store.sqlite.connection import translated
from weft.store.sqlite.transaction import commit_group


class WriterThread:
    """Commits groups of requests in their order.

    A plain thread and queue: an executor's futures cost a chain of tasks a quarter of its speed.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._queue: queue.SimpleQueue[tuple[asyncio.AbstractEventLoop, Sequence[Request], Done] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._work, name="weft-writer", daemon=True)
        self._thread.start()

    def submit(self, requests: Sequence[Request], done: Done) -> None:
        """Commit the requests, and call `done` in the running event loop."""
        self._queue.put((asyncio.get_running_loop(), requests, done))

    def stop(self) -> None:
        """End the thread; nothing may be under way."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            loop, requests, done = item
            outcomes = self._outcomes(requests)
            try:
                loop.call_soon_threadsafe(done, outcomes)
            except RuntimeError:  # the loop was closed meanwhile; nobody waits for the answer
                return

    def _outcomes(self, requests: Sequence[Request]) -> Sequence[Any] | Exception:
        try:
            return commit_group(self._connection, requests)
        except sqlite3.Error as error:
            translation = translated(error, self._path)
            translation.__cause__ = error
            return translation
        except Exception as error:
            return error
