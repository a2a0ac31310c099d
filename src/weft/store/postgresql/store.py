"""The PostgreSQL store: one writing connection with group commit, a small pool for reading."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Self

import asyncpg

from weft.ids import TaskId
from weft.settings import shown_location
from weft.store.errors import StoreError
from weft.store.group_commit import Done
from weft.store.grouped_writes import GroupedWrites
from weft.store.postgresql.connection import connect_writer, pool_of_readers, translated_errors
from weft.store.postgresql.reading import read_flow, read_tasks, tasks_of
from weft.store.postgresql.rows import due_schedule_of, event_of, is_storable, is_stored_form, may_exist
from weft.store.postgresql.schema import prepare
from weft.store.postgresql.templates import template_of
from weft.store.postgresql.writer import Writer
from weft.store.protocol import DueSchedule, EventFilter, Owner, StoreDescription, TaskFilter, TaskPage
from weft.store.queries import load_queries
from weft.store.requests import Request
from weft.store.steps import StoredStep
from weft.store.templates import RegisteredTemplate
from weft.tasks.events import Event
from weft.tasks.flow import Flow, TaskNotFound
from weft.tasks.record import FIELD_NAMES, Task
from weft.tasks.steps import Digests
from weft.tasks.summary import FlowSummary, summary_of

_SQL = load_queries("postgresql")
_WIDTH = len(FIELD_NAMES)


class PostgresqlStore(GroupedWrites):
    """Task records in one schema of a PostgreSQL database, which several processes may share."""

    def __init__(self, url: str, writer: Writer, readers: asyncpg.Pool) -> None:
        super().__init__()
        self._location = shown_location(url)
        self._writer = writer
        self._readers = readers
        self._is_closed = False
        self._committing: asyncio.Future[None] | None = None

    @classmethod
    async def open(cls, url: str, *, must_exist: bool = False) -> Self:
        """The store in the first schema of the search path; it gets its tables if it need not have them."""
        connection = await connect_writer(url)
        try:
            with translated_errors(shown_location(url)):
                await prepare(connection, shown_location(url), must_exist=must_exist)
                readers = await pool_of_readers(url)
        except BaseException:
            connection.terminate()
            raise
        return cls(url, Writer(url, connection), readers)

    async def get(self, task_id: TaskId, *, owner: Owner) -> Task:
        found = await self.get_many([task_id], owner=owner)
        if task_id not in found:
            raise TaskNotFound(task_id=task_id)
        return found[task_id]

    async def get_many(self, task_ids: Sequence[TaskId], *, owner: Owner) -> dict[TaskId, Task]:
        with self._errors():
            found = await read_tasks(self._readers, [(task_id, owner) for task_id in dict.fromkeys(task_ids)])
        return {task_id: found[task_id] for task_id in task_ids if task_id in found}

    async def flow_of(self, task_id: TaskId, *, owner: Owner, limit: int | None = None) -> Flow:
        with self._errors():
            flow = await read_flow(self._readers, task_id, owner, limit)
        if task_id not in flow and (limit is None or not len(flow)):
            raise TaskNotFound(task_id=task_id)
        return flow

    async def summary(self, root_id: TaskId, *, owner: Owner) -> FlowSummary:
        if not may_exist(root_id, owner):
            raise TaskNotFound(task_id=root_id)
        with self._errors():
            async with (
                self._readers.acquire() as connection,
                connection.transaction(isolation="repeatable_read", readonly=True),
            ):
                rows = await connection.fetch(
                    _SQL["count_by_status"], root_id, owner.is_everyone, owner.user_id
                )
                (waiting,) = await connection.fetch(_SQL["count_waiting"], root_id)
        if not rows:
            raise TaskNotFound(task_id=root_id)
        return summary_of(root_id, {row["status"]: row["count"] for row in rows}, *waiting)

    async def due_schedules(
        self, *, now: datetime, limit: int, after: DueSchedule | None = None
    ) -> Sequence[DueSchedule]:
        last = (None, None) if after is None else (after.next_run_at, after.task_id)
        with self._errors():
            rows = await self._readers.fetch(_SQL["due_schedules"], now, limit, *last)
        return [due_schedule_of(row) for row in rows]

    async def overdue_rests(self, *, now: datetime, limit: int) -> Sequence[TaskId]:
        with self._errors():
            rows = await self._readers.fetch(_SQL["overdue_rests"], now, limit)
        return [TaskId(str(row["id"])) for row in rows]

    async def workers(self) -> Sequence[str]:
        with self._errors():
            rows = await self._readers.fetch(_SQL["list_workers"])
        return [row["id"] for row in rows]

    async def running_flows(self, *, owner: Owner) -> Sequence[TaskId]:
        if not _can_be_asked(owner):
            return []
        with self._errors():
            rows = await self._readers.fetch(_SQL["running_flows"], owner.is_everyone, owner.user_id)
        return [TaskId(str(row["id"])) for row in rows]

    async def list(self, wanted: TaskFilter, *, owner: Owner) -> TaskPage:
        if not _can_be_asked(owner, wanted.tree, text=wanted.name):
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
        # One snapshot for both statements: a page and its total agree.
        with self._errors():
            async with (
                self._readers.acquire() as connection,
                connection.transaction(isolation="repeatable_read", readonly=True),
            ):
                rows = await connection.fetch(_SQL["list_tasks"], *parameters, wanted.limit, wanted.offset)
                total = await connection.fetchval(_SQL["count_tasks"], *parameters)
        return TaskPage(tuple(await tasks_of(rows)), total)

    async def events(self, wanted: EventFilter, *, owner: Owner) -> Sequence[Event]:
        if not _can_be_asked(owner, wanted.tree, wanted.task):
            return []
        with self._errors():
            rows = await self._readers.fetch(
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
        with self._errors():
            rows = await self._readers.fetch(_SQL["steps_of"], task_id)
        tasks = await tasks_of([row[:_WIDTH] for row in rows])
        return [StoredStep(task, row[_WIDTH], row[_WIDTH + 1]) for task, row in zip(tasks, rows, strict=True)]

    async def digests_of(self, root_id: TaskId) -> Mapping[TaskId, Digests]:
        if not is_stored_form(root_id):
            return {}
        with self._errors():
            rows = await self._readers.fetch(_SQL["digests_of_flow"], root_id)
        return {TaskId(str(row["id"])): Digests(row["step_hash"], row["reuse_hash"]) for row in rows}

    async def reusable_steps(
        self, reuse_hash: str, *, user_id: str | None, besides: TaskId
    ) -> Sequence[TaskId]:
        if not is_storable(user_id):
            return []
        with self._errors():
            rows = await self._readers.fetch(_SQL["reusable_steps"], reuse_hash, user_id, besides)
        return [TaskId(str(row[0])) for row in rows]

    async def find_step(self, task_id: TaskId) -> Task | None:
        with self._errors():
            rows = await self._readers.fetch(_SQL["find_step"], task_id)
        return (await tasks_of(rows))[0] if rows else None

    async def templates(
        self, *, owner: Owner, names: Collection[str] | None = None
    ) -> Sequence[RegisteredTemplate]:
        if not _can_be_asked(owner):
            return []
        wanted = None if names is None else [name for name in names if is_storable(name)]
        with self._errors():
            rows = await self._readers.fetch(_SQL["list_templates"], owner.is_everyone, owner.user_id, wanted)
        return list(map(template_of, rows))

    async def template_versions(self, name: str, *, owner: Owner) -> Sequence[RegisteredTemplate]:
        if not _can_be_asked(owner, text=name):
            return []
        with self._errors():
            rows = await self._readers.fetch(
                _SQL["template_versions"], owner.is_everyone, owner.user_id, name
            )
        return list(map(template_of, rows))

    async def known_templates(self, names: Collection[str]) -> frozenset[str]:
        wanted = [name for name in names if is_storable(name)]
        with self._errors():
            rows = await self._readers.fetch(_SQL["template_names"], wanted)
        return frozenset(row["name"] for row in rows)

    async def describe(self) -> StoreDescription:
        with self._errors():
            (found,) = await self._readers.fetch(_SQL["describe"])
        is_standby = found["is_standby"]
        return StoreDescription(
            kind="postgresql",
            location=self._location,
            server_version=found["server_version"],
            schema_version=found["schema_version"],
            tasks=found["tasks"],
            events=found["events"],
            problems=("the server is a standby: it can be read, not written",) if is_standby else (),
        )

    async def close(self) -> None:
        await self._group.close()
        self._is_closed = True
        with translated_errors(self._location):
            await self._writer.close()
            await self._readers.close()

    def _commit(self, requests: Sequence[Request], done: Done) -> None:
        # The loop itself holds tasks only weakly.
        self._committing = asyncio.ensure_future(self._commit_and_tell(requests, done))

    async def _commit_and_tell(self, requests: Sequence[Request], done: Done) -> None:
        try:
            outcomes: Sequence[Any] | Exception = await self._writer.commit(requests)
        except Exception as error:
            outcomes = error
        done(outcomes)

    def _errors(self) -> AbstractContextManager[None]:
        """What every read runs in."""
        if self._is_closed:
            raise StoreError("the store is closed")
        return translated_errors(self._location)


def _can_be_asked(owner: Owner, *task_ids: TaskId | None, text: str | None = None) -> bool:
    """Whether PostgreSQL takes the question; if not, nothing is stored that would answer it."""
    can_hold = all(is_stored_form(task_id) for task_id in task_ids if task_id is not None)
    return can_hold and is_storable(owner.user_id) and is_storable(text)
