"""The SQLite store, in a file or in memory."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from weft.clock import Clock, SystemClock
from weft.errors import TransientError
from weft.fault_points import HANG_SECONDS, StoreFault, hang, store_faults
from weft.store.errors import StoreError, StoreUnreachable
from weft.store.group_commit import Done
from weft.store.protocol import StoreDescription, TaskStore
from weft.store.sql import is_current
from weft.store.sqlite.access import Access, FileAccess
from weft.store.sqlite.connection import BUSY_TIMEOUT_SECONDS
from weft.store.sqlite.memory import open_memory
from weft.store.sqlite.transaction import DIALECT, SQL, parameters_of
from weft.store.tolerance import STORE_BACKOFF, Tolerance
from weft.store.unit_of_work import Query, Request

T = TypeVar("T")

log = logging.getLogger(__name__)

INJECTED_FAULT = "an injected fault"


class SqliteStore(TaskStore):
    """Task records in one SQLite file, which several processes can share, or in memory."""

    dialect = DIALECT

    def __init__(self, access: Access) -> None:
        super().__init__()
        self._access = access
        self._tolerance = Tolerance()
        self._is_closed = False

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        synchronous: str = "NORMAL",
        must_exist: bool = False,
        is_shared: bool = False,
        clock: Clock | None = None,
    ) -> Self:
        """Open the store in a file; create the file and its folder if they are missing, unless `must_exist`.

        Only this user can read a new file, or with `is_shared` also its group.
        """
        access = await asyncio.to_thread(
            FileAccess,
            path,
            clock or SystemClock(),
            synchronous=synchronous,
            must_exist=must_exist,
            is_shared=is_shared,
        )
        return cls(access)

    @classmethod
    async def open_memory(
        cls, location: str = ":memory:", *, must_exist: bool = False, clock: Clock | None = None
    ) -> Self:
        """Open a store in memory. In one process, an equal location is the same store, except `:memory:`."""
        return cls(open_memory(location, clock or SystemClock(), must_exist=must_exist))

    @property
    def clock(self) -> Clock:
        return self._access.clock

    @property
    def renews_with_lock(self) -> bool:
        return self._access.renews_with_lock

    async def check(self) -> None:
        self._access.check()
        version = await self._access_database(
            lambda connection: connection.execute("PRAGMA user_version").fetchone()[0]
        )
        is_current("sqlite", version, str(self._access.path), must_exist=False)

    def stop_waiting(self) -> None:
        self._tolerance.stop_waiting()
        self._access.stop_waiting()

    async def describe(self) -> StoreDescription:
        def read(connection: sqlite3.Connection) -> StoreDescription:
            tasks, events = connection.execute(SQL["count_rows"]).fetchone()
            findings = [row[0] for row in connection.execute("PRAGMA quick_check(10)")]
            if exposed := self._access.exposure():
                findings.append(exposed)
            return StoreDescription(
                kind="sqlite",
                location=str(self._access.path),
                server_version=sqlite3.sqlite_version,
                schema_version=connection.execute("PRAGMA user_version").fetchone()[0],
                tasks=tasks,
                events=events,
                problems=tuple(finding for finding in findings if finding != "ok"),
            )

        return await self._access_database(read)

    async def close(self) -> None:
        await self._group.close()
        self._is_closed = True
        await self._access.close()

    def _commit(self, requests: Sequence[Request], done: Done) -> None:
        """Commit the requests, and retry for BUSY_TIMEOUT_SECONDS while the database is unavailable."""

        def on_done(outcomes: Sequence[Any] | Exception) -> None:
            if isinstance(outcomes, TransientError):
                self._retry_commit(requests, done, outcomes)
            else:
                done(outcomes)

        if store_faults.plan is None:
            self._access.commit(requests, on_done)
        else:
            self._commit_with_faults(requests, on_done)

    def _retry_commit(self, requests: Sequence[Request], done: Done, error: TransientError) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + BUSY_TIMEOUT_SECONDS
        failures = 0

        def on_done(outcomes: Sequence[Any] | Exception) -> None:
            nonlocal failures
            failures += 1
            pause = STORE_BACKOFF.delay_after(failures)
            is_unavailable = isinstance(outcomes, TransientError)
            if not is_unavailable or self._tolerance.is_exiting or loop.time() + pause > deadline:
                done(outcomes)
                return
            log.warning("retrying a commit: %s", outcomes, extra={"action": "store_transient_error"})
            loop.call_later(pause, retry)

        def retry() -> None:
            try:
                self._commit_with_faults(requests, on_done)
            except BaseException:  # for instance KeyboardInterrupt: other callers must not wait forever
                done(StoreError("the write was interrupted"))
                raise

        on_done(error)

    def _commit_with_faults(self, requests: Sequence[Request], done: Done) -> None:
        """Commit the requests, unless a test injects a fault here."""
        fault = None if store_faults.plan is None else store_faults.plan.next_fault(is_write=True)
        if fault is StoreFault.FAIL:
            done(StoreUnreachable(INJECTED_FAULT))
        elif fault is StoreFault.HANG:
            loop = asyncio.get_running_loop()
            loop.call_later(HANG_SECONDS, self._access.commit, requests, done)
        else:
            self._access.commit(requests, done)

    async def _read(self, then: Callable[..., T], *queries: Query, is_short: bool = False) -> T:
        def read(connection: sqlite3.Connection) -> T:
            return then(
                *(connection.execute(SQL[name], parameters_of(values)).fetchall() for name, values in queries)
            )

        return await self._access_database(read, is_short=is_short)

    async def _access_database(self, read: Callable[[sqlite3.Connection], T], *, is_short: bool = False) -> T:
        async def call() -> T:
            await self._begin_read()
            # An index lookup in the event loop is ten times faster than a switch to a thread.
            return self._access.read_now(read) if is_short else await self._access.read(read)

        return await self._tolerance.retry(call)

    async def _begin_read(self) -> None:
        """Raise if the store is closed. Every read calls this, so that tests can inject faults."""
        if self._is_closed:
            raise StoreError("the store is closed")
        if store_faults.plan is not None:
            fault = store_faults.plan.next_fault(is_write=False)
            if fault is StoreFault.FAIL:
                raise StoreUnreachable(INJECTED_FAULT)
            if fault is StoreFault.HANG:
                await hang()
