"""The SQLite store, in a file or in memory."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TypeVar

from weft.clock import Clock, SystemClock
from weft.errors import TransientError
from weft.fault_points import HANG_SECONDS, StoreFault, hang, store_faults
from weft.ids import TaskId
from weft.store.columns import json_text
from weft.store.errors import SchemaTooNew, StoreError, StoreUnreachable
from weft.store.group_commit import Done, GroupedWrites
from weft.store.models import RegisteredTemplate, StoredStep
from weft.store.protocol import DueSchedule, EventFilter, Owner, StoreDescription, TaskFilter, TaskPage
from weft.store.requests import Request
from weft.store.sql import load_migrations, load_queries
from weft.store.sqlite.access import Access, FileAccess
from weft.store.sqlite.connection import BUSY_TIMEOUT_SECONDS
from weft.store.sqlite.memory import open_memory
from weft.store.sqlite.operations import owner_parameters
from weft.store.sqlite.rows import due_schedule_of, event_of, micros, task_of
from weft.store.sqlite.templates import template_of
from weft.store.tolerance import STORE_BACKOFF, Tolerance
from weft.tasks.events import Event
from weft.tasks.flow import Flow, TaskNotFound
from weft.tasks.record import FIELD_NAMES, Task
from weft.tasks.steps import Digests
from weft.tasks.summary import FlowSummary, summary_of

T = TypeVar("T")

log = logging.getLogger(__name__)

_SQL = load_queries("sqlite")
_TASK_COLUMNS = len(FIELD_NAMES)
INJECTED_FAULT = "an injected fault"
KNOWN_VERSION = len(load_migrations("sqlite"))

_BEFORE_ALL = -(2**63)
"""A time, in microseconds, before every time in the store."""


class SqliteStore(GroupedWrites):
    """Task records in one SQLite file, which several processes can share, or in memory."""

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
        access = await FileAccess.open(
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
        version = await self._read(lambda connection: connection.execute("PRAGMA user_version").fetchone()[0])
        if version > KNOWN_VERSION:
            raise SchemaTooNew(location=str(self._access.path), found=version, known=KNOWN_VERSION)

    def leave(self) -> None:
        self._tolerance.leave()
        self._access.leave()

    async def get(self, task_id: TaskId, *, owner: Owner) -> Task:
        found = await self.get_many([task_id], owner=owner)
        if task_id not in found:
            raise TaskNotFound(task_id=task_id)
        return found[task_id]

    async def get_many(self, task_ids: Sequence[TaskId], *, owner: Owner) -> dict[TaskId, Task]:
        def read(connection: sqlite3.Connection) -> dict[TaskId, Task]:
            found: dict[TaskId, Task] = {}
            for task_id in task_ids:
                row = connection.execute(
                    _SQL["get_task"], {"id": task_id, **owner_parameters(owner)}
                ).fetchone()
                if row is not None:
                    found[task_id] = task_of(row)
            return found

        return await self._read(read)

    async def flow_of(self, task_id: TaskId, *, owner: Owner, limit: int | None = None) -> Flow:
        parameters = {"id": task_id, "limit": -1 if limit is None else limit, **owner_parameters(owner)}

        def read(connection: sqlite3.Connection) -> Flow:
            return Flow(map(task_of, connection.execute(_SQL["get_flow"], parameters)))

        flow = await self._read(read)
        if task_id not in flow and (limit is None or not len(flow)):
            raise TaskNotFound(task_id=task_id)
        return flow

    async def summary(self, root_id: TaskId, *, owner: Owner) -> FlowSummary:
        def read(connection: sqlite3.Connection) -> FlowSummary:
            parameters = {"root": root_id, **owner_parameters(owner)}
            counts = dict(connection.execute(_SQL["count_by_status"], parameters).fetchall())
            if not counts:
                raise TaskNotFound(task_id=root_id)
            return summary_of(
                root_id, counts, *connection.execute(_SQL["count_waiting"], (root_id,)).fetchone()
            )

        return await self._read(read)

    async def due_schedules(
        self, *, now: datetime, limit: int, after: DueSchedule | None = None
    ) -> Sequence[DueSchedule]:
        last = (_BEFORE_ALL, "") if after is None else (micros(after.next_run_at), after.task_id)

        def read(connection: sqlite3.Connection) -> Sequence[DueSchedule]:
            rows = connection.execute(_SQL["due_schedules"], (micros(now), limit, *last))
            return list(map(due_schedule_of, rows))

        return await self._read(read)

    async def overdue_suspensions(self, *, now: datetime, limit: int) -> Sequence[TaskId]:
        def read(connection: sqlite3.Connection) -> Sequence[TaskId]:
            return [row[0] for row in connection.execute(_SQL["overdue_suspensions"], (micros(now), limit))]

        return await self._read(read)

    async def running_flows(self, *, owner: Owner) -> Sequence[TaskId]:
        def read(connection: sqlite3.Connection) -> Sequence[TaskId]:
            rows = connection.execute(_SQL["running_flows"], (owner.is_everyone, owner.user_id))
            return [row[0] for row in rows]

        return await self._read(read)

    async def workers(self) -> Sequence[str]:
        def read(connection: sqlite3.Connection) -> Sequence[str]:
            return [row[0] for row in connection.execute(_SQL["list_workers"])]

        return await self._read(read)

    async def list(self, wanted: TaskFilter, *, owner: Owner) -> TaskPage:
        parameters = {
            "status": wanted.status.value if wanted.status else None,
            "name": wanted.name,
            "tree": wanted.tree,
            "only_roots": wanted.only_roots,
            "only_scheduled": wanted.only_scheduled,
            "with_steps": wanted.with_steps,
            **owner_parameters(owner),
        }

        def read(connection: sqlite3.Connection) -> TaskPage:
            page = {**parameters, "limit": wanted.limit, "offset": wanted.offset}
            tasks = tuple(map(task_of, connection.execute(_SQL["list_tasks"], page)))
            return TaskPage(tasks, connection.execute(_SQL["count_tasks"], parameters).fetchone()[0])

        return await self._read(read)

    async def events(self, wanted: EventFilter, *, owner: Owner) -> Sequence[Event]:
        parameters = {
            "after": wanted.after,
            "tree": wanted.tree,
            "task": wanted.task,
            "limit": wanted.limit,
            **owner_parameters(owner),
        }

        def read(connection: sqlite3.Connection) -> Sequence[Event]:
            return [event_of(row) for row in connection.execute(_SQL["list_events"], parameters)]

        return await self._read(read)

    async def steps_of(self, task_id: TaskId) -> Sequence[StoredStep]:
        def read(connection: sqlite3.Connection) -> Sequence[StoredStep]:
            rows = connection.execute(_SQL["steps_of"], (task_id,))
            return [
                StoredStep(task_of(row[:_TASK_COLUMNS]), row[_TASK_COLUMNS], row[_TASK_COLUMNS + 1])
                for row in rows
            ]

        return await self._read(read)

    async def digests_of(self, root_id: TaskId) -> Mapping[TaskId, Digests]:
        def read(connection: sqlite3.Connection) -> Mapping[TaskId, Digests]:
            rows = connection.execute(_SQL["digests_of_flow"], (root_id,))
            return {task_id: Digests(asked, reuse) for task_id, asked, reuse in rows}

        return await self._read(read)

    async def reusable_steps(
        self, reuse_hash: str, *, user_id: str | None, besides: TaskId
    ) -> Sequence[TaskId]:
        rows = await self._read_in_loop(_SQL["reusable_steps"], (reuse_hash, user_id, besides))
        return [TaskId(row[0]) for row in rows]

    async def find_step(self, task_id: TaskId) -> Task | None:
        rows = await self._read_in_loop(_SQL["find_step"], (task_id,))
        return task_of(rows[0]) if rows else None

    async def templates(
        self, *, owner: Owner, names: Collection[str] | None = None
    ) -> Sequence[RegisteredTemplate]:
        wanted = None if names is None else json_text(list(names))

        def read(connection: sqlite3.Connection) -> Sequence[RegisteredTemplate]:
            rows = connection.execute(_SQL["list_templates"], (owner.is_everyone, owner.user_id, wanted))
            return list(map(template_of, rows))

        return await self._read(read)

    async def template_versions(self, name: str, *, owner: Owner) -> Sequence[RegisteredTemplate]:
        def read(connection: sqlite3.Connection) -> Sequence[RegisteredTemplate]:
            rows = connection.execute(_SQL["template_versions"], (owner.is_everyone, owner.user_id, name))
            return list(map(template_of, rows))

        return await self._read(read)

    async def known_templates(self, names: Collection[str]) -> frozenset[str]:
        def read(connection: sqlite3.Connection) -> frozenset[str]:
            rows = connection.execute(_SQL["template_names"], (json_text(list(names)),))
            return frozenset(row[0] for row in rows)

        return await self._read(read)

    async def describe(self) -> StoreDescription:
        def read(connection: sqlite3.Connection) -> StoreDescription:
            tasks, events = connection.execute(_SQL["count_rows"]).fetchone()
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

        return await self._read(read)

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
            if not is_unavailable or self._tolerance.is_leaving or loop.time() + pause > deadline:
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

    async def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        async def call() -> T:
            await self._begin_read()
            return await self._access.read(read)

        return await self._tolerance.retry(call)

    async def _read_in_loop(self, statement: str, parameters: tuple[Any, ...]) -> Sequence[Any]:
        """Read in the event loop: an index lookup is ten times faster than a switch to a thread."""

        async def call() -> Sequence[Any]:
            await self._begin_read()
            return self._access.read_now(lambda reader: reader.execute(statement, parameters).fetchall())

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
