"""The application: an open store, and the use cases of all front ends as methods."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import structs

from weft.app import wiring
from weft.app.host import EngineHost
from weft.app.host import EngineLimits as EngineLimits
from weft.clock import SystemClock
from weft.config.settings import working_folder
from weft.engine.worker import Life, life_of
from weft.executors.registry import BUILT_IN_IDS
from weft.ids import LAST, TaskId, new_task_id
from weft.secrets.references import register_named
from weft.secrets.registry import has_secrets, redact_json
from weft.store.protocol import EventFilter as EventFilter
from weft.store.protocol import TaskFilter as TaskFilter
from weft.store.protocol import TaskPage
from weft.tasks.decisions import Operation
from weft.tasks.events import Event, EventType
from weft.tasks.flow import MAX_CANDIDATES, AmbiguousId, Flow, TaskNotFound
from weft.tasks.operations import (
    Answered,
    AnswerQuestion,
    ArchiveTasks,
    CancelTasks,
    ChangeRun,
    CopyTasks,
    DeleteTasks,
    ForkRun,
    LinkTasks,
    ResumeSuspended,
    RetryTasks,
    SubmitFlow,
    UpdateTask,
)
from weft.tasks.parsing.flow_parser import read_flow
from weft.tasks.program_params import TEMPLATE, in_folder
from weft.tasks.questions import choose_question, is_question, open_questions
from weft.tasks.record import JsonObject, Status, Task, method_of
from weft.tasks.states import InvalidTransition
from weft.tasks.steps import with_digests
from weft.tasks.summary import FlowSummary

if TYPE_CHECKING:
    from weft.app.run_records import ResumeOptions, RunRecords
    from weft.app.templates import TemplateLibrary
    from weft.runs.outcome import RunOutcome
    from weft.runs.program import LoadedProgram, StoredProgram
    from weft.store.protocol import StoreDescription

T = TypeVar("T")

WITHOUT_TEMPLATE = BUILT_IN_IDS - {TEMPLATE} | {""}
"""Methods of tasks that are never names of templates."""

WATCH_SECONDS = 0.1
"""Seconds between two queries of `watch` for new events."""


def read_document(document: Any, *, user_id: str | None = None) -> Flow:
    """Return the checked flow of a JSON document, without storing it."""
    return read_flow(document, new_id=new_task_id, now=SystemClock().now(), user_id=user_id)


class App(EngineHost):
    """An open store, used on behalf of one owner."""

    @cached_property
    def library(self) -> "TemplateLibrary":
        """Return the registered templates of the store."""
        return wiring.open_library(self.store, self.owner, self.settings, self.load_executors, self._clock)

    @cached_property
    def _runs(self) -> "RunRecords":
        return wiring.open_runs(self.store, self.settings)

    async def submit(self, document: Any) -> Flow:
        """Check and store the flow of a JSON document, without running it."""
        return await self._submit(document, is_run=False)

    async def begin_program(
        self, program: "LoadedProgram | StoredProgram", inputs: JsonObject, *, name: str
    ) -> TaskId:
        """Store a program as the root task of a new run, request that it is run, and return its id."""
        document, folder = self._runs.document(program, inputs, name)
        self._is_stopped = False
        flow = await self._submit([document], is_run=True, folder=folder or str(working_folder()))
        return flow.root.id

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
        self.load_executors()
        if isinstance(flow, Flow):
            flow = flow.root.id
        if isinstance(flow, str):
            return await self._begin_stored(await self.root_of(TaskId(flow)))
        self._is_stopped = False
        root = (await self._submit(flow, is_run=True)).root
        return await self._begin_stored(root) if root.schedule_enabled else root.id

    async def _begin_stored(self, root: Task) -> TaskId:
        self._is_stopped = False
        if root.schedule_enabled:
            root = (await self.copy(root.id)).root
        await self.store.run_flow(root.id, owner=self.owner)
        return root.id

    async def resume(self, task_id: TaskId, changes: "ResumeOptions | None" = None) -> TaskId:
        """Request that a program run is resumed, and return the id of its root; failed steps are retried.

        Raise NoRun, before anything is performed, if the task does not belong to a program run.
        """
        root = await self.root_of(task_id)
        await self._runs.require_run(root)
        if changes:
            root = await self._change_run(root, changes)
        if root.status is Status.FAILED:
            await self._retry_failed(root.id)
        root_id = await self._begin_stored(root)
        await self.resume_suspended(root_id, only_overdue=True)
        return root_id

    async def _retry_failed(self, root_id: TaskId) -> None:
        try:
            await self.retry(root_id)
        except InvalidTransition:
            if (await self.get(root_id)).status is Status.FAILED:
                raise
            # Another process has just resumed the run: both processes wait for it.

    async def _change_run(self, root: Task, changes: "ResumeOptions") -> Task:
        """Store the changes and return the new root; raise CannotChange if the run has ended or runs."""
        params = self._runs.changed_params(root, changes)
        await self.engine()  # releases claims of processes that died
        root = await self.get(root.id)
        is_held = root.status is Status.IN_PROGRESS and await self._holder(root.id) is not None
        changes.require_possible(root, is_held=is_held)
        return await self._operate(ChangeRun(task_id=root.id, params=params, now=self.now()))

    async def is_running_elsewhere(self, root: Task) -> bool:
        """Return whether a live process evaluates a program run."""
        return root.status is Status.IN_PROGRESS and await self._holder(root.id) in await self.workers()

    async def _holder(self, task_id: TaskId) -> str | None:
        """Return the worker of the last attempt at a task; None if it has released the task."""
        holder, after = None, 0
        while events := await self.events(EventFilter(tree=task_id, task=task_id, after=after)):
            after = events[-1].seq
            for event in events:
                if event.type in (EventType.TASK_STARTED, EventType.TASK_RELEASED):
                    holder = event.facts.get("worker", "") if event.type is EventType.TASK_STARTED else None
        return holder

    async def last_event(self, root_id: TaskId) -> int:
        """Return the number of the last event of a flow, 0 if there are none."""
        last = 0
        while events := await self.events(EventFilter(tree=root_id, after=last)):
            last = events[-1].seq
        return last

    async def outcome(self, task_id: TaskId) -> "RunOutcome":
        """Return how a run ended; while it is suspended, with the questions that it asks."""
        outcome = await self._runs.outcome_of(await self.get(task_id))
        if outcome.result is not None:
            return outcome
        return structs.replace(outcome, questions=await self.questions(task_id))

    async def stop_flow(self, root_id: TaskId) -> None:
        """Request that all processes stop running a flow."""
        await self.store.stop_flow(root_id, owner=self.owner)

    async def end_flow(self, root_id: TaskId) -> bool:
        """Mark a flow as over if no task of it can run any more; return whether it is over."""
        return await self.store.end_flow(root_id)

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
        return {worker for worker in await self.store.workers() if life_of(worker) is not Life.DEAD}

    async def questions(self, task_id: TaskId) -> tuple[Task, ...]:
        """Return the task itself if it is a question, otherwise the open questions of its flow."""
        task = await self.get(task_id)
        return (task,) if is_question(task) else open_questions(await self.flow_of(task_id))

    async def find_question(self, task_id: TaskId, *, is_shown: bool = False) -> Task:
        """Return the question with this id, or the only question asked in the subtree of the task.

        See `choose_question` for the errors, and for `is_shown`.
        """
        task = await self.get(task_id)
        return task if is_question(task) else choose_question(await self.flow_of(task_id), task_id, is_shown)

    async def answer(self, task_id: TaskId, text: str) -> Answered:
        """Answer a question, so that its run can continue; repeating the same answer changes nothing."""
        # This process may not have run the task, so register its secrets before redacting the answer.
        for task in await self.flow_of(task_id):
            register_named(task.inputs)
        text = redact_json(text) if has_secrets() else text
        return await self._operate(AnswerQuestion(task_id=task_id, answer=text, now=self.now()))

    async def resume_suspended(self, task_id: TaskId, *, only_overdue: bool = False) -> None:
        """Resume the tasks of a flow that are suspended for a person, so that this process asks again.

        With `only_overdue`, resume only tasks with a question whose time limit has expired.
        """
        await self._operate(ResumeSuspended(task_id, self.now() if only_overdue else None))

    async def export(self, task_id: TaskId) -> Flow:
        """Return the flow of a task in its portable form.

        Steps include their digests, so that another store can reuse them. Programs have no folder: they will
        run in the project of the importing store.
        """
        flow = await self.flow_of(task_id)
        digests = await self.store.digests_of(flow.root.id)
        tasks = (in_folder(task, None) for task in flow)
        return Flow(with_digests(task, digests[task.id]) if task.id in digests else task for task in tasks)

    async def root_of(self, task_id: TaskId) -> Task:
        """Return the root of a task's flow."""
        task = await self.get(task_id)
        return task if task.task_tree_id in (None, task.id) else await self.get(task.task_tree_id)

    async def find_tasks(self, task_ids: Sequence[TaskId]) -> dict[TaskId, Task]:
        """Return the tasks with these ids that exist."""
        return dict(await self.store.get_many(task_ids, owner=self.owner))

    async def find_id(self, reference: str) -> TaskId:
        """Return the id that a person means by the beginning of an id, or by `last`, the newest root.

        Raise TaskNotFound, or AmbiguousId with the candidates.
        """
        if reference == LAST:
            tasks: Sequence[Task] = (await self.list(TaskFilter(only_roots=True, limit=1))).tasks
        else:
            tasks = await self.find_by_prefix(reference, limit=MAX_CANDIDATES + 1)
        if not tasks:
            raise TaskNotFound(task_id=reference)
        if len(tasks) > 1:
            raise AmbiguousId(reference, tasks)
        return tasks[0].id

    async def find_by_prefix(self, prefix: str, *, limit: int) -> Sequence[Task]:
        """Return tasks whose ids begin with a prefix, newest first."""
        return await self.store.find_by_prefix(prefix, owner=self.owner, limit=limit)

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
            wanted = structs.replace(wanted, tree=tree)
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
        if not {method_of(task) for task in flow} <= WITHOUT_TEMPLATE:
            await self._runs.require_arguments(flow)
        return await self.store.operate(SubmitFlow(flow, now, is_run), owner=self.owner)

    async def _operate(self, operation: Operation[T]) -> T:
        return await self.store.operate(operation, owner=self.owner)
