"""The SQLite store: one writer with group commit, readers on their own connections."""

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TypeVar

from weft.cache_folder import exposure, keep_private
from weft.clock import Clock, SystemClock
from weft.collector import paused_collector
from weft.ids import TaskId
from weft.store.columns import json_text
from weft.store.errors import SchemaTooNew, StoreError, StoreNotFound, StoreReplaced, StoreUnreachable
from weft.store.group_commit import Done
from weft.store.grouped_writes import GroupedWrites
from weft.store.protocol import DueSchedule, EventFilter, Owner, StoreDescription, TaskFilter, TaskPage
from weft.store.queries import load_migrations, load_queries
from weft.store.requests import Request
from weft.store.sqlite.connection import connect, prepare, translated_errors
from weft.store.sqlite.operations import owner_parameters
from weft.store.sqlite.rows import due_schedule_of, event_of, micros, task_of
from weft.store.sqlite.templates import template_of
from weft.store.sqlite.writer import Writer
from weft.store.steps import StoredStep
from weft.store.templates import RegisteredTemplate
from weft.store.tolerance import Tolerance
from weft.tasks.events import Event
from weft.tasks.flow import Flow, TaskNotFound
from weft.tasks.record import FIELD_NAMES, Task
from weft.tasks.steps import Digests
from weft.tasks.summary import FlowSummary, summary_of

T = TypeVar("T")

_SQL = load_queries("sqlite")
_WIDTH = len(FIELD_NAMES)
KNOWN_VERSION = len(load_migrations("sqlite"))
_READERS = 4
"""Enough that a long listing does not hold up a short look-up; each has its own connection."""

_FIRST_TIME = -(2**63)
"""Earlier than every time in the store."""


class SqliteStore(GroupedWrites):
    """Task records in one SQLite file, which several processes may share."""

    def __init__(
        self, path: Path, writer: sqlite3.Connection, *, synchronous: str, is_shared: bool, clock: Clock
    ) -> None:
        super().__init__()
        self._is_shared = is_shared
        self._path = path
        self._clock = clock
        self._file = _identity(path)
        self._tolerance = Tolerance()
        self._writer = writer
        self._synchronous = synchronous
        self._writing = Writer(writer, path, clock, waits_for_disk=synchronous == "FULL")
        self._reading = ThreadPoolExecutor(_READERS, thread_name_prefix="weft-reader")
        self._local = threading.local()
        self._readers: list[sqlite3.Connection] = []
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
        """The store in a file, which is created with its folder when it is not there and need not be.

        Only this user may read it, or with `is_shared` its group too.
        """
        writer = await asyncio.to_thread(
            _open_writer, path, synchronous, must_exist=must_exist, is_shared=is_shared
        )
        return cls(path, writer, synchronous=synchronous, is_shared=is_shared, clock=clock or SystemClock())

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def renews_with_lock(self) -> bool:
        return True

    async def check(self) -> None:
        if _identity(self._path) != self._file:
            raise StoreReplaced(location=str(self._path))
        version = await self._read(lambda connection: connection.execute("PRAGMA user_version").fetchone()[0])
        if version > KNOWN_VERSION:
            raise SchemaTooNew(location=str(self._path), found=version, known=KNOWN_VERSION)

    def leave(self) -> None:
        self._tolerance.leave()
        self._writing.leave()

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
        last = (_FIRST_TIME, "") if after is None else (micros(after.next_run_at), after.task_id)

        def read(connection: sqlite3.Connection) -> Sequence[DueSchedule]:
            rows = connection.execute(_SQL["due_schedules"], (micros(now), limit, *last))
            return list(map(due_schedule_of, rows))

        return await self._read(read)

    async def overdue_rests(self, *, now: datetime, limit: int) -> Sequence[TaskId]:
        def read(connection: sqlite3.Connection) -> Sequence[TaskId]:
            return [row[0] for row in connection.execute(_SQL["overdue_rests"], (micros(now), limit))]

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
            return [StoredStep(task_of(row[:_WIDTH]), row[_WIDTH], row[_WIDTH + 1]) for row in rows]

        return await self._read(read)

    async def digests_of(self, root_id: TaskId) -> Mapping[TaskId, Digests]:
        def read(connection: sqlite3.Connection) -> Mapping[TaskId, Digests]:
            rows = connection.execute(_SQL["digests_of_flow"], (root_id,))
            return {task_id: Digests(asked, reuse) for task_id, asked, reuse in rows}

        return await self._read(read)

    async def reusable_steps(
        self, reuse_hash: str, *, user_id: str | None, besides: TaskId
    ) -> Sequence[TaskId]:
        rows = await self._read_here(_SQL["reusable_steps"], (reuse_hash, user_id, besides))
        return [TaskId(row[0]) for row in rows]

    async def find_step(self, task_id: TaskId) -> Task | None:
        rows = await self._read_here(_SQL["find_step"], (task_id,))
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
            if exposed := exposure(self._path, is_shared=self._is_shared):
                findings.append(exposed)
            return StoreDescription(
                kind="sqlite",
                location=str(self._path),
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
        await asyncio.to_thread(self._close_connections)

    def _close_connections(self) -> None:
        self._writing.stop()
        self._reading.shutdown()
        for connection in [*self._readers, self._writer]:
            connection.close()

    def _commit(self, requests: Sequence[Request], done: Done) -> None:
        self._writing.commit(requests, done)

    async def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        loop = asyncio.get_running_loop()

        def call() -> Awaitable[T]:
            if self._is_closed:
                raise StoreError("the store is closed")
            return loop.run_in_executor(self._reading, self._read_in_thread, read)

        return await self._tolerance.retry(call)

    async def _read_here(self, statement: str, parameters: tuple[Any, ...]) -> Sequence[Any]:
        """Read in the event loop.

        One look into an index takes less than a tenth of the way to a thread and back, and every step asks.
        """

        async def call() -> Sequence[Any]:
            if self._is_closed:
                raise StoreError("the store is closed")
            with translated_errors(self._path):
                return self._reader().execute(statement, parameters).fetchall()

        return await self._tolerance.retry(call)

    @paused_collector()
    def _read_in_thread(self, read: Callable[[sqlite3.Connection], T]) -> T:
        with translated_errors(self._path):
            connection = self._reader()
            # One snapshot for all statements of a read: a page and its total agree.
            connection.execute("BEGIN")
            try:
                return read(connection)
            finally:
                connection.execute("COMMIT")

    def _reader(self) -> sqlite3.Connection:
        """This thread's own connection."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = connect(self._path, is_reader=True, synchronous=self._synchronous)
            self._local.connection = connection
            self._readers.append(connection)
        return connection


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another one of the same name; None when there is no such file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _open_writer(path: Path, synchronous: str, *, must_exist: bool, is_shared: bool) -> sqlite3.Connection:
    try:
        if must_exist:
            path.stat()
        keep_private(path, is_shared=is_shared)
    except FileNotFoundError:
        raise StoreNotFound(location=str(path)) from None
    except OSError as error:
        raise StoreUnreachable(f"{path}: {error.strerror}") from error
    with translated_errors(path):
        connection = connect(path, is_reader=False, synchronous=synchronous)
        try:
            prepare(connection, path, must_exist=must_exist)
            # From here on the writer waits in its own way: never in the event loop.
            connection.execute("PRAGMA busy_timeout = 0")
        except BaseException:
            connection.close()
            raise
    return connection
