"""The PostgreSQL store: one writing connection with group commit, and a small pool for reading."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import datetime
from typing import Any, Self, TypeVar

import asyncpg

from weft.clock import Clock, SyncedClock
from weft.config.settings import shown_location
from weft.fault_points import store_faults
from weft.ids import TaskId
from weft.store.errors import NotAStore, SchemaTooNew, StoreError, StoreNotFound
from weft.store.group_commit import Done, GroupedWrites
from weft.store.models import RegisteredTemplate, StoredStep
from weft.store.postgresql.attempts import Leases
from weft.store.postgresql.connection import (
    CLOSE_TIMEOUT_SECONDS,
    LOST,
    Timeouts,
    begin_call,
    connect_writer,
    pool_of_readers,
    translated_errors,
)
from weft.store.postgresql.rows import (
    due_schedule_of,
    event_of,
    is_storable,
    is_stored_form,
    may_exist,
    read_flow,
    read_tasks,
    tasks_of,
)
from weft.store.postgresql.templates import template_of
from weft.store.postgresql.writer import Writer
from weft.store.protocol import Claim, DueSchedule, EventFilter, Owner, StoreDescription, TaskFilter, TaskPage
from weft.store.requests import Request
from weft.store.sql import load_migrations, load_queries
from weft.store.tolerance import Tolerance
from weft.tasks.events import Event
from weft.tasks.flow import Flow, TaskNotFound
from weft.tasks.record import FIELD_NAMES, Task
from weft.tasks.steps import Digests
from weft.tasks.summary import FlowSummary, summary_of

_SQL = load_queries("postgresql")
KNOWN_VERSION = len(load_migrations("postgresql"))
MIGRATION_SECONDS = 3600.0
"""A migration may rewrite every row of a large store."""


async def prepare(connection: asyncpg.Connection, location: str, *, must_exist: bool = False) -> None:
    """Migrate the schema to the current version. Raise if its tables are not weft's, or are newer."""
    known = load_migrations("postgresql")
    # Checked before anything is locked, so that a current store can be opened with read-only permissions.
    version = await _version(connection, location)
    if version == len(known):
        return
    if version > len(known):
        raise SchemaTooNew(location=location, found=version, known=len(known))
    if version == 0 and must_exist:
        raise StoreNotFound(location=location)
    await connection.execute(_SQL["begin_write"], timeout=MIGRATION_SECONDS)
    try:
        # Another process may have migrated while we waited for the lock.
        for number in range(await _version(connection, location), len(known)):
            await connection.execute(known[number], timeout=MIGRATION_SECONDS)
            await connection.execute(_SQL["set_schema_version"], number + 1)
        await connection.execute("COMMIT")
    except BaseException:
        if not connection.is_closed():
            await connection.execute("ROLLBACK")
        raise


async def _version(connection: asyncpg.Connection, location: str) -> int:
    tables = {row["relname"] for row in await connection.fetch(_SQL["our_tables"])}
    if "weft_schema" in tables:
        return int(await connection.fetchval(_SQL["schema_version"]))
    if tables:
        names = ", ".join(sorted(tables))
        raise NotAStore(
            f"{location} has tables of another application ({names}); choose another schema with "
            "?search_path=SCHEMA in the URL"
        )
    return 0


T = TypeVar("T")
Reader = Any
"""A connection of the pool, for which the driver has its own type."""

_TASK_COLUMNS = len(FIELD_NAMES)


class PostgresqlStore(GroupedWrites):
    """Task records in one schema of a PostgreSQL database, which several processes can share."""

    def __init__(
        self,
        url: str,
        connection: asyncpg.Connection,
        readers: asyncpg.Pool,
        *,
        now: datetime,
        timeouts: Timeouts,
        clock: Clock | None,
    ) -> None:
        """Use the server's time `now` to synchronise the store's clock, unless `clock` replaces it."""
        super().__init__()
        self._location = shown_location(url)
        self._synced = SyncedClock(now)
        self._clock = clock
        self._timeouts = timeouts
        self._tolerance = Tolerance(timeouts.away_seconds)
        self._writer = Writer(
            url,
            connection,
            timeouts=timeouts,
            tolerance=self._tolerance,
            on_time=self._synced.sync,
            clock=clock,
        )
        self._leases = Leases(url, timeouts, clock)
        self._readers = readers
        self._is_closed = False
        self._committing: asyncio.Future[None] | None = None

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        must_exist: bool = False,
        timeouts: Timeouts | None = None,
        clock: Clock | None = None,
    ) -> Self:
        """Open the store in the first schema of the search path; create its tables unless `must_exist`."""
        timeouts = timeouts or Timeouts()
        connection = await connect_writer(url, timeouts)
        try:
            with translated_errors(shown_location(url)):
                await prepare(connection, shown_location(url), must_exist=must_exist)
                now = await connection.fetchval(_SQL["server_time"])
                readers = await pool_of_readers(url, timeouts)
        except BaseException:
            connection.terminate()
            raise
        return cls(url, connection, readers, now=now, timeouts=timeouts, clock=clock)

    @property
    def clock(self) -> Clock:
        return self._clock or self._synced

    async def renew_worker(self, worker: str, *, lease_seconds: float) -> frozenset[Claim] | None:
        return await self._leases.renew(worker, lease_seconds) if is_storable(worker) else None

    @property
    def renews_with_lock(self) -> bool:
        return False

    async def check(self) -> None:
        async def read_facts() -> tuple[int, datetime]:
            with translated_errors(self._location):
                async with self._tolerance.limit():
                    return await self._leases.facts()

        version, now = await self._tolerance.retry(read_facts)
        self._synced.sync(now)
        if version > KNOWN_VERSION:
            raise SchemaTooNew(location=self._location, found=version, known=KNOWN_VERSION)

    def leave(self) -> None:
        self._tolerance.leave()

    async def get(self, task_id: TaskId, *, owner: Owner) -> Task:
        found = await self.get_many([task_id], owner=owner)
        if task_id not in found:
            raise TaskNotFound(task_id=task_id)
        return found[task_id]

    async def get_many(self, task_ids: Sequence[TaskId], *, owner: Owner) -> dict[TaskId, Task]:
        wanted = [(task_id, owner) for task_id in dict.fromkeys(task_ids)]
        found = await self._read(lambda connection: read_tasks(connection, wanted))
        return {task_id: found[task_id] for task_id in task_ids if task_id in found}

    async def flow_of(self, task_id: TaskId, *, owner: Owner, limit: int | None = None) -> Flow:
        flow = await self._read(lambda connection: read_flow(connection, task_id, owner, limit))
        if task_id not in flow and (limit is None or not len(flow)):
            raise TaskNotFound(task_id=task_id)
        return flow

    async def summary(self, root_id: TaskId, *, owner: Owner) -> FlowSummary:
        if not may_exist(root_id, owner):
            raise TaskNotFound(task_id=root_id)

        async def read(connection: Reader) -> tuple[Any, Any]:
            async with _snapshot(connection):
                rows = await connection.fetch(
                    _SQL["count_by_status"], root_id, owner.is_everyone, owner.user_id
                )
                return rows, await connection.fetchrow(_SQL["count_waiting"], root_id)

        rows, waiting = await self._read(read)
        if not rows:
            raise TaskNotFound(task_id=root_id)
        return summary_of(root_id, {row["status"]: row["count"] for row in rows}, *waiting)

    async def due_schedules(
        self, *, now: datetime, limit: int, after: DueSchedule | None = None
    ) -> Sequence[DueSchedule]:
        last = (None, None) if after is None else (after.next_run_at, after.task_id)
        rows = await self._fetch(_SQL["due_schedules"], now, limit, *last)
        return [due_schedule_of(row) for row in rows]

    async def overdue_suspensions(self, *, now: datetime, limit: int) -> Sequence[TaskId]:
        rows = await self._fetch(_SQL["overdue_suspensions"], now, limit)
        return [TaskId(str(row["id"])) for row in rows]

    async def workers(self) -> Sequence[str]:
        rows = await self._fetch(_SQL["list_workers"])
        return [row["id"] for row in rows]

    async def running_flows(self, *, owner: Owner) -> Sequence[TaskId]:
        if not _can_query(owner):
            return []
        rows = await self._fetch(_SQL["running_flows"], owner.is_everyone, owner.user_id)
        return [TaskId(str(row["id"])) for row in rows]

    async def list(self, wanted: TaskFilter, *, owner: Owner) -> TaskPage:
        if not _can_query(owner, wanted.tree, text=wanted.name):
            return TaskPage((), 0)
        parameters = (
            owner.is_everyone,
            owner.user_id,
            wanted.status.value if wanted.status else None,
            wanted.name,
            wanted.tree,
            wanted.only_roots,
            wanted.only_scheduled,
            wanted.with_steps,
        )

        async def read(connection: Reader) -> tuple[Any, int]:
            async with _snapshot(connection):
                rows = await connection.fetch(_SQL["list_tasks"], *parameters, wanted.limit, wanted.offset)
                return rows, await connection.fetchval(_SQL["count_tasks"], *parameters)

        rows, total = await self._read(read)
        return TaskPage(tuple(await tasks_of(rows)), total)

    async def events(self, wanted: EventFilter, *, owner: Owner) -> Sequence[Event]:
        if not _can_query(owner, wanted.tree, wanted.task):
            return []
        rows = await self._fetch(
            _SQL["list_events"],
            wanted.after,
            owner.is_everyone,
            owner.user_id,
            wanted.tree,
            wanted.task,
            wanted.limit,
        )
        return [event_of(row) for row in rows]

    async def steps_of(self, task_id: TaskId) -> Sequence[StoredStep]:
        if not is_stored_form(task_id):
            return []
        rows = await self._fetch(_SQL["steps_of"], task_id)
        tasks = await tasks_of([row[:_TASK_COLUMNS] for row in rows])
        return [
            StoredStep(task, row[_TASK_COLUMNS], row[_TASK_COLUMNS + 1])
            for task, row in zip(tasks, rows, strict=True)
        ]

    async def digests_of(self, root_id: TaskId) -> Mapping[TaskId, Digests]:
        if not is_stored_form(root_id):
            return {}
        rows = await self._fetch(_SQL["digests_of_flow"], root_id)
        return {TaskId(str(row["id"])): Digests(row["step_hash"], row["reuse_hash"]) for row in rows}

    async def reusable_steps(
        self, reuse_hash: str, *, user_id: str | None, besides: TaskId
    ) -> Sequence[TaskId]:
        if not is_storable(user_id):
            return []
        rows = await self._fetch(_SQL["reusable_steps"], reuse_hash, user_id, besides)
        return [TaskId(str(row[0])) for row in rows]

    async def find_step(self, task_id: TaskId) -> Task | None:
        rows = await self._fetch(_SQL["find_step"], task_id)
        return (await tasks_of(rows))[0] if rows else None

    async def templates(
        self, *, owner: Owner, names: Collection[str] | None = None
    ) -> Sequence[RegisteredTemplate]:
        if not _can_query(owner):
            return []
        wanted = None if names is None else [name for name in names if is_storable(name)]
        rows = await self._fetch(_SQL["list_templates"], owner.is_everyone, owner.user_id, wanted)
        return list(map(template_of, rows))

    async def template_versions(self, name: str, *, owner: Owner) -> Sequence[RegisteredTemplate]:
        if not _can_query(owner, text=name):
            return []
        rows = await self._fetch(_SQL["template_versions"], owner.is_everyone, owner.user_id, name)
        return list(map(template_of, rows))

    async def known_templates(self, names: Collection[str]) -> frozenset[str]:
        wanted = [name for name in names if is_storable(name)]
        rows = await self._fetch(_SQL["template_names"], wanted)
        return frozenset(row["name"] for row in rows)

    async def describe(self) -> StoreDescription:
        (found,) = await self._fetch(_SQL["describe"])
        is_standby = found["is_standby"]
        return StoreDescription(
            kind="postgresql",
            location=self._location,
            server_version=found["server_version"],
            schema_version=found["schema_version"],
            tasks=found["tasks"],
            events=found["events"],
            problems=("the server is a standby: it is read-only",) if is_standby else (),
        )

    async def close(self) -> None:
        await self._group.close()
        self._is_closed = True
        if not self._tolerance.is_leaving:
            with suppress(*LOST):
                await self._writer.close()
                await self._leases.close()
                async with asyncio.timeout(CLOSE_TIMEOUT_SECONDS):
                    await self._readers.close()
        self._writer.terminate()
        self._leases.terminate()
        self._readers.terminate()

    def _commit(self, requests: Sequence[Request], done: Done) -> None:
        # Kept in an attribute, because the event loop holds tasks only weakly.
        self._committing = asyncio.ensure_future(self._commit_and_report(requests, done))

    async def _commit_and_report(self, requests: Sequence[Request], done: Done) -> None:
        try:
            outcomes: Sequence[Any] | Exception = await self._writer.commit(requests)
        except Exception as error:
            outcomes = error
        done(outcomes)

    async def _fetch(self, statement: str, *parameters: Any) -> Sequence[Any]:
        rows: Sequence[Any] = await self._read(lambda connection: connection.fetch(statement, *parameters))
        return rows

    async def _read(self, read: Callable[[Reader], Awaitable[T]]) -> T:
        """Read, with retries. Every read is made here, so that tests can inject faults."""

        async def call() -> T:
            if self._is_closed:
                raise StoreError("the store is closed")
            with translated_errors(self._location):
                async with self._tolerance.limit(), self._reader() as connection:
                    if store_faults.plan is not None:
                        # The driver limits the time of a statement, but not the time before it.
                        async with asyncio.timeout(self._timeouts.command_seconds):
                            await begin_call(is_write=False)
                    return await read(connection)

        return await self._tolerance.retry(call)

    @asynccontextmanager
    async def _reader(self) -> AsyncIterator[Reader]:
        """Yield a connection; terminate it on cancellation, for which the driver would wait on the server."""
        async with self._readers.acquire() as connection:
            try:
                yield connection
            except BaseException as error:
                if isinstance(error, (asyncio.CancelledError, *LOST)):
                    connection.terminate()
                raise


def _snapshot(connection: Reader) -> AbstractAsyncContextManager[Any]:
    """Let all statements in the block see the same snapshot, so that a page and its total agree."""
    transaction: AbstractAsyncContextManager[Any] = connection.transaction(
        isolation="repeatable_read", readonly=True
    )
    return transaction


def _can_query(owner: Owner, *task_ids: TaskId | None, text: str | None = None) -> bool:
    """Return whether PostgreSQL accepts the values of a query; if not, no stored row can match."""
    can_hold = all(is_stored_form(task_id) for task_id in task_ids if task_id is not None)
    return can_hold and is_storable(owner.user_id) and is_storable(text)
