"""The one place that builds concrete objects; everything a front end may do is a method here."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from weft.clock import Clock, SystemClock
from weft.errors import MissingExtra
from weft.ids import NewTaskId, TaskId, new_task_id
from weft.settings import Settings, is_postgresql, load_settings
from weft.store.protocol import (
    EVERYONE,
    EventFilter,
    Owner,
    StoreDescription,
    TaskFilter,
    TaskPage,
    TaskStore,
)
from weft.tasks.events import Event
from weft.tasks.flow import Flow
from weft.tasks.operations import (
    ArchiveTasks,
    CopyTasks,
    DeleteTasks,
    LinkTasks,
    MixedCopy,
    SubmitFlow,
    UpdateTask,
)
from weft.tasks.reading import read_flow
from weft.tasks.record import JsonObject, Task


class App:
    """An open store and what can be done with it, on behalf of one owner."""

    def __init__(
        self,
        store: TaskStore,
        *,
        owner: Owner = EVERYONE,
        clock: Clock | None = None,
        new_id: NewTaskId = new_task_id,
    ) -> None:
        self.store = store
        self.owner = owner
        self._clock = clock or SystemClock()
        self._new_id = new_id

    @classmethod
    async def open(cls, db: str | Path | None = None, *, user_id: str | None = None) -> Self:
        """The app on a store: a path, a `postgresql://` URL, or by default the project's own file."""
        settings = load_settings(db=None if db is None else str(db), user_id=user_id)
        owner = EVERYONE if settings.user_id is None else Owner(settings.user_id)
        return cls(await open_store(settings), owner=owner)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish the writes under way and close the store."""
        await self.store.close()

    async def submit(self, document: Any) -> Flow:
        """Check and store the flow a JSON document describes."""
        flow = read_flow(document, new_id=self._new_id, now=self._now(), user_id=self.owner.user_id)
        return await self.store.operate(SubmitFlow(flow, self._now()), owner=self.owner)

    async def get(self, task_id: TaskId) -> Task:
        """One task."""
        return await self.store.get(task_id, owner=self.owner)

    async def flow_of(self, task_id: TaskId) -> Flow:
        """The whole flow a task is in."""
        return await self.store.flow_of(task_id, owner=self.owner)

    async def list(self, wanted: TaskFilter) -> TaskPage:
        """The tasks a filter lets through, newest first."""
        return await self.store.list(wanted, owner=self.owner)

    async def events(self, wanted: EventFilter) -> Sequence[Event]:
        """The events a filter lets through, oldest first."""
        if wanted.task is not None and wanted.tree is None:
            # The log is indexed by flow; a task that is gone is looked for in all of it.
            found = await self.store.get_many([wanted.task], owner=self.owner)
            tree = found[wanted.task].task_tree_id if wanted.task in found else None
            wanted = msgspec.structs.replace(wanted, tree=tree)
        return await self.store.events(wanted, owner=self.owner)

    async def copy(
        self, task_id: TaskId, *, linked: Sequence[TaskId] = (), with_dependencies: bool = False
    ) -> Flow:
        """Copy a task and all below it as a new pending flow; the `linked` ones keep their results."""
        if linked:
            mixed = MixedCopy(
                task_id=task_id,
                linked=frozenset(linked),
                with_dependencies=with_dependencies,
                new_id=self._new_id,
                now=self._now(),
            )
            return await self.store.operate(mixed, owner=self.owner)
        copy = CopyTasks(
            task_id=task_id, with_dependencies=with_dependencies, new_id=self._new_id, now=self._now()
        )
        return await self.store.operate(copy, owner=self.owner)

    async def link(self, task_id: TaskId) -> Flow:
        """Make a new flow that carries the results of a completed task and all below it."""
        return await self.store.operate(
            LinkTasks(task_id=task_id, new_id=self._new_id, now=self._now()), owner=self.owner
        )

    async def archive(self, task_id: TaskId) -> Flow:
        """Make a frozen deep copy of a completed task and all below it."""
        return await self.store.operate(
            ArchiveTasks(task_id=task_id, new_id=self._new_id, now=self._now()), owner=self.owner
        )

    async def update(self, task_id: TaskId, fields: JsonObject) -> Task:
        """Set fields of a task."""
        return await self.store.operate(
            UpdateTask(task_id=task_id, fields=fields, now=self._now()), owner=self.owner
        )

    async def delete(self, task_ids: Sequence[TaskId], *, with_children: bool = False) -> tuple[TaskId, ...]:
        """Delete pending tasks that nothing else needs."""
        operation = DeleteTasks(task_ids=tuple(task_ids), with_children=with_children, now=self._now())
        return await self.store.operate(operation, owner=self.owner)

    async def describe(self) -> StoreDescription:
        """What and where the store is, and whether it is sound."""
        return await self.store.describe()

    def _now(self) -> datetime:
        return self._clock.now()


def read_document(document: Any, *, user_id: str | None = None) -> Flow:
    """The flow a JSON document describes, checked but not stored: needs no store."""
    return read_flow(document, new_id=new_task_id, now=SystemClock().now(), user_id=user_id)


async def open_store(settings: Settings) -> TaskStore:
    """The store the settings name, ready to use."""
    if is_postgresql(settings.db):
        # Imported here: asyncpg is an extra, and costs every other command its import time.
        try:
            from weft.store.postgresql.store import PostgresqlStore
        except ModuleNotFoundError as error:
            if error.name != "asyncpg":
                raise
            raise MissingExtra(extra="postgresql", purpose="a PostgreSQL store") from error

        return await PostgresqlStore.open(settings.db)
    from weft.store.sqlite.store import SqliteStore

    return await SqliteStore.open(Path(settings.db), synchronous=settings.sqlite_synchronous)
