"""The application: an open store, and the use cases of all front ends as methods."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from weft.app.submission import require_arguments
from weft.app.wiring import open_store
from weft.clock import Clock
from weft.config.settings import Settings, load_settings, working_folder
from weft.ids import NewTaskId, TaskId, new_task_id
from weft.store.protocol import EVERYONE, EventFilter, Owner, TaskFilter, TaskPage, TaskStore
from weft.tasks.decisions import Operation
from weft.tasks.events import Event
from weft.tasks.flow import Flow
from weft.tasks.operations import (
    ArchiveTasks,
    CancelTasks,
    CopyTasks,
    DeleteTasks,
    ForkRun,
    LinkTasks,
    RetryTasks,
    SubmitFlow,
    UpdateTask,
)
from weft.tasks.parsing.flow_parser import read_flow
from weft.tasks.program_params import TEMPLATE, in_folder
from weft.tasks.record import JsonObject, Task
from weft.tasks.summary import FlowSummary

if TYPE_CHECKING:
    from weft.engine.engine import Engine
    from weft.engine.limits import EngineLimits
    from weft.executors.registry import ExecutorRegistry
    from weft.runs.executor import NewEffects
    from weft.runs.program import StoredProgram
    from weft.store.protocol import StoreDescription

T = TypeVar("T")

WATCH_SECONDS = 0.1
"""Seconds between two queries of `watch` for new events."""

OPENING_SECONDS = 2.0
"""How long `stop` waits for an engine that is starting."""


class App:
    """An open store, used on behalf of one owner."""

    def __init__(
        self,
        store: TaskStore,
        *,
        settings: Settings,
        owner: Owner = EVERYONE,
        clock: Clock | None = None,
        new_id: NewTaskId = new_task_id,
        limits: "EngineLimits | None" = None,
        executors: "ExecutorRegistry | None" = None,
        new_effects: "NewEffects | None" = None,
    ) -> None:
        """Initialize; `new_effects` creates the effects of programs, by default the project's."""
        self.store = store
        self.settings = settings
        self.owner = owner
        self._clock = clock or store.clock
        self._new_id = new_id
        self._limits = limits
        self._executors = executors
        self._new_effects = new_effects
        self.has_project_effects = new_effects is None
        self._engine: Engine | None = None
        self._is_stopped = False
        self._opening_engine = asyncio.Lock()

    @classmethod
    async def open(
        cls,
        db: str | Path | None = None,
        *,
        user_id: str | None = None,
        must_exist: bool = False,
        limits: "EngineLimits | None" = None,
        executors: "ExecutorRegistry | None" = None,
        new_effects: "NewEffects | None" = None,
    ) -> Self:
        """Open a store: a path, a `postgresql://` URL, `:memory:`, or by default the project's store.

        A missing store is created; with `must_exist`, StoreNotFound is raised instead.
        """
        settings = load_settings(db=None if db is None else str(db), user_id=user_id)
        owner = EVERYONE if settings.user_id is None else Owner(settings.user_id)
        store = await open_store(settings, must_exist=must_exist)
        if limits is not None:
            seconds = limits.lease_seconds or settings.lease_seconds
            limits = msgspec.structs.replace(limits, lease_seconds=seconds)
        return cls(
            store, settings=settings, owner=owner, limits=limits, executors=executors, new_effects=new_effects
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self, *, grace_seconds: float | None = None) -> None:
        """Stop the engine, if there is one, finish pending writes and close the store."""
        await self.stop(grace_seconds=grace_seconds)
        await self.store.close()

    async def submit(self, document: Any) -> Flow:
        """Check and store the flow of a JSON document, without running it."""
        return await self._submit(document, is_run=False)

    async def begin_program(self, program: "StoredProgram", inputs: JsonObject, *, name: str) -> TaskId:
        """Store a program as the root task of a new run, request that it is run, and return its id."""
        # Imported here: not needed to read tasks.
        from weft.runs.program import as_params, with_model

        program = with_model(program, self.settings.models)
        folder = program.folder or str(working_folder())
        document = {
            "name": name,
            "inputs": inputs,
            "schemas": {"method": TEMPLATE},
            "params": as_params(msgspec.structs.replace(program, folder=None)),
        }
        self._is_stopped = False
        return (await self._submit([document], is_run=True, folder=folder)).root.id

    async def run(self, flow: Any) -> FlowSummary:
        """Run a flow until no task of it can start, and return its summary.

        `flow` is a JSON document, which is stored first, or a stored flow or the id of one of its tasks,
        which is resumed. Of a scheduled flow, a copy is run.
        """
        root_id = await self.begin(flow)
        await self.wait(root_id)
        return await self.summary(root_id)

    async def begin(self, flow: Any) -> TaskId:
        """Request that a flow is run, as `run` does, and return the id of its root without waiting."""
        self._is_stopped = False
        if isinstance(flow, Flow):
            flow = flow.root.id
        if isinstance(flow, str):
            root = await self.get((await self.get(TaskId(flow))).task_tree_id or TaskId(flow))
        else:
            root = (await self._submit(flow, is_run=True)).root
            if not root.schedule_enabled:
                return root.id
        if root.schedule_enabled:
            root = (await self.copy(root.id)).root
        await self.store.run_flow(root.id, owner=self.owner)
        return root.id

    async def wait(self, root_id: TaskId) -> None:
        """Run tasks of a started flow until it ends or `stop` is called.

        Returns at once if `stop` was called after the flow was started.
        """
        engine = await self.engine()
        if not self._is_stopped:
            await engine.follow(root_id)
            await self.store.check()  # if the store's file was deleted meanwhile, the results are lost

    async def serve(self) -> None:
        """Run all started flows, and fire schedules, until the engine is stopped.

        If the engine or the scheduler fails, stops both and raises the error.
        """
        # Imported here: not needed to read tasks.
        from weft.engine.scheduler import Scheduler

        self._is_stopped = False
        engine = await self.engine()
        if self._is_stopped:
            return
        scheduler = Scheduler(self.store, self._clock, new_id=self._new_id)
        parts = [asyncio.create_task(engine.serve()), asyncio.create_task(scheduler.run())]
        try:
            ended, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in parts:
                part.cancel()
            await asyncio.wait(parts)
        for part in ended:
            await part

    async def stop(self, *, grace_seconds: float | None = None) -> None:
        """Stop running tasks in this process; tasks unfinished after the grace time are released.

        The next `run`, `begin` or `serve` waits until the stopped engine has ended, then starts a new one.
        """
        self._is_stopped = True
        try:
            async with asyncio.timeout(OPENING_SECONDS), self._opening_engine:
                pass
        except TimeoutError:  # the engine waits for an unavailable store
            self.store.stop_waiting()
        async with self._opening_engine:
            engine = self._engine
        if engine is not None:
            await engine.stop(grace_seconds=grace_seconds)

    async def engine(self) -> "Engine":
        """Return the engine of this process; start one on first use, or if the last one has ended.

        After `stop`, the stopped engine is returned until the next `run`, `begin` or `serve`.
        """
        while True:
            async with self._opening_engine:
                if self._engine is None or not (self._engine.is_running or self._is_stopped):
                    self._engine = await self._new_engine().__aenter__()
                engine = self._engine
            if self._is_stopped or not engine.is_stopping:
                return engine
            await engine.ended()

    @property
    def executors(self) -> "ExecutorRegistry":
        """Return the executors of this process."""
        if self._executors is None:
            # Imported here: not needed to read tasks.
            from weft.effects.tools import project_registry

            self._executors = project_registry(self.settings)
        return self._executors

    def _new_engine(self) -> "Engine":
        # Imported here: not needed to read tasks.
        from weft.app.wiring import with_programs
        from weft.engine.engine import Engine
        from weft.engine.limits import EngineLimits

        limits = self._limits or EngineLimits(lease_seconds=self.settings.lease_seconds)
        executors = with_programs(
            self.executors,
            self.store,
            self._new_effects,
            clock=self._clock,
            new_id=self._new_id,
            concurrency=limits.concurrency,
            models=self.settings.models,
        )
        return Engine(self.store, executors, limits=limits, secrets=self.settings.secrets)

    async def cancel(self, task_id: TaskId, *, reason: str = "cancelled") -> tuple[TaskId, ...]:
        """Cancel a task and the unfinished tasks of its subtree; return their ids."""
        cancelled = await self._operate(CancelTasks(task_id=task_id, reason=reason, now=self.now()))
        if self._engine is not None:
            self._engine.cancelled(cancelled)
        return cancelled

    async def retry(self, task_id: TaskId) -> tuple[TaskId, ...]:
        """Reset a failed task and the failed tasks of its subtree to pending; return their ids."""
        return await self._operate(RetryTasks(task_id=task_id, now=self.now()))

    async def watch(self, root_id: TaskId, *, after: int = 0) -> AsyncIterator[Event]:
        """Yield the events of a flow above number `after` as they happen, until it ends or is stopped."""
        is_over, has_news = False, True
        while True:
            is_over = is_over or root_id not in await self.store.running_flows(owner=self.owner)
            events = await self.events(EventFilter(tree=root_id, after=after))
            for event in events:
                after = event.seq
                yield event
            if events:
                has_news = True
            elif is_over:
                return
            elif has_news:
                # A process that dies at the end of a flow leaves the flow marked as started.
                is_over, has_news = (await self.summary(root_id)).is_over, False
            else:
                await asyncio.sleep(WATCH_SECONDS)

    async def workers(self) -> set[str]:
        """Return the workers of this store, except those of this machine whose process has died."""
        from weft.engine.worker import is_dead_here

        return {worker for worker in await self.store.workers() if not is_dead_here(worker)}

    async def get(self, task_id: TaskId) -> Task:
        return await self.store.get(task_id, owner=self.owner)

    async def flow_of(self, task_id: TaskId, *, limit: int | None = None) -> Flow:
        """Return the flow of a task, or only its first `limit` tasks."""
        return await self.store.flow_of(task_id, owner=self.owner, limit=limit)

    async def summary(self, root_id: TaskId) -> FlowSummary:
        return await self.store.summary(root_id, owner=self.owner)

    async def list(self, wanted: TaskFilter) -> TaskPage:
        """Return the tasks that match a filter, newest first."""
        return await self.store.list(wanted, owner=self.owner)

    async def events(self, wanted: EventFilter) -> Sequence[Event]:
        """Return the events that match a filter, oldest first."""
        if wanted.task is not None and wanted.tree is None:
            # The log is indexed by flow; for a deleted task the whole log is searched.
            found = await self.store.get_many([wanted.task], owner=self.owner)
            tree = found[wanted.task].task_tree_id if wanted.task in found else None
            wanted = msgspec.structs.replace(wanted, tree=tree)
        return await self.store.events(wanted, owner=self.owner)

    async def copy(
        self,
        task_id: TaskId,
        *,
        linked: Sequence[TaskId] = (),
        with_dependencies: bool = False,
        newest: bool = False,
        reuse: bool = False,
    ) -> Flow:
        """Copy a task and its subtree as a new pending flow; `linked` tasks keep their results.

        With `with_dependencies`, dependencies outside of the subtree are copied too. Tasks keep the template
        versions they ran with, unless `newest`. Without `reuse`, models are called again.
        """
        copy = CopyTasks(
            task_id=task_id,
            linked=frozenset(linked),
            with_dependencies=with_dependencies,
            is_newest=newest,
            is_reusing=reuse,
            new_id=self._new_id,
            now=self.now(),
        )
        return await self._operate(copy)

    async def fork(
        self, task_id: TaskId, step: str, inputs: JsonObject | None = None, *, reuse: bool = True
    ) -> Flow:
        """Create a pending run that performs a step (its id or key) and all later steps again.

        `inputs` replace inputs of the run. Steps before it are linked if their requests are unchanged. With
        `reuse`, the others may reuse results of other runs.
        """
        fork = ForkRun(
            task_id=task_id,
            step=step,
            inputs=inputs or {},
            is_reusing=reuse,
            new_id=self._new_id,
            now=self.now(),
        )
        return await self._operate(fork)

    async def link(self, task_id: TaskId) -> Flow:
        """Create a new flow with the results of a completed task and its subtree."""
        return await self._operate(LinkTasks(task_id=task_id, new_id=self._new_id, now=self.now()))

    async def archive(self, task_id: TaskId) -> Flow:
        """Create a frozen deep copy of a completed task and its subtree."""
        return await self._operate(ArchiveTasks(task_id=task_id, new_id=self._new_id, now=self.now()))

    async def update(self, task_id: TaskId, fields: JsonObject) -> Task:
        """Set fields of a task and return it."""
        return await self._operate(UpdateTask(task_id=task_id, fields=fields, now=self.now()))

    async def delete(self, task_ids: Sequence[TaskId], *, with_children: bool = False) -> tuple[TaskId, ...]:
        """Delete pending tasks without remaining children, dependents or copies; return their ids."""
        operation = DeleteTasks(task_ids=tuple(task_ids), with_children=with_children, now=self.now())
        return await self._operate(operation)

    async def describe(self) -> "StoreDescription":
        """Return kind, location, version, size and problems of the store."""
        return await self.store.describe()

    async def _submit(self, document: Any, *, is_run: bool, folder: str | None = None) -> Flow:
        """Check and store a document; with `is_run`, request that it is run, unless its root has a schedule.

        `folder` is where its programs run; the document itself cannot set it.
        """
        now = self.now()
        flow = read_flow(document, new_id=self._new_id, now=now, user_id=self.owner.user_id)
        if folder is not None:
            flow = Flow(in_folder(task, folder) for task in flow)
        is_run = is_run and not flow.root.schedule_enabled
        await require_arguments(self.store, flow)
        return await self.store.operate(SubmitFlow(flow, now, is_run), owner=self.owner)

    async def _operate(self, operation: Operation[T]) -> T:
        return await self.store.operate(operation, owner=self.owner)

    def now(self) -> datetime:
        """Return the current time of the store's clock, used in records."""
        return self._clock.now()
