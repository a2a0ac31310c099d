"""Task records and their events: operations that change them, and queries."""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from weft.ids import TaskId, prefix_range
from weft.store.columns import dependent_rows, json_value, step_rows, waiting_for
from weft.store.models import EventFilter, Owner, TaskFilter, TaskPage
from weft.store.unit_of_work import Many, Operate, Row, StorePart, Unit, Work
from weft.tasks.decisions import Operation, WriteSet
from weft.tasks.events import Event, EventType
from weft.tasks.flow import Flow, TaskNotFound
from weft.tasks.record import Task, method_of
from weft.tasks.summary import FlowSummary, summary_of

T = TypeVar("T")

NO_LIMIT = 2**62


class Records(StorePart):
    """Performs operations, and finds tasks and events."""

    async def operate(self, operation: Operation[T], *, owner: Owner) -> T:
        """Perform an operation in one transaction and return its value."""
        # After Ctrl-C, start no operation: it could be committed after "interrupted" was printed.
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError
        value: T = await self._group.write(Operate(operation, owner))
        return value

    async def get(self, task_id: TaskId, *, owner: Owner) -> Task:
        """Return one task. Raise TaskNotFound if it does not exist."""
        found = await self.get_many([task_id], owner=owner)
        if task_id not in found:
            raise TaskNotFound(task_id=task_id)
        return found[task_id]

    async def get_many(self, task_ids: Sequence[TaskId], *, owner: Owner) -> dict[TaskId, Task]:
        """Return the tasks that exist, by id."""
        query = "get_tasks", (list(task_ids), owner.is_everyone, owner.user_id)
        found = {task.id: task for task in await self._read(self._tasks_of, query)}
        return {task_id: found[task_id] for task_id in task_ids if task_id in found}

    async def find_by_prefix(self, prefix: str, *, owner: Owner, limit: int) -> Sequence[Task]:
        """Return tasks whose ids begin with a prefix, newest first."""
        ids = prefix_range(prefix)
        if ids is None:
            return []
        query = "find_by_prefix", (*ids, owner.is_everyone, owner.user_id, limit)
        return await self._read(self._tasks_of, query)

    async def flow_of(self, task_id: TaskId, *, owner: Owner, limit: int | None = None) -> Flow:
        """Return the flow of a task, or its first `limit` tasks. Raise TaskNotFound if it does not exist."""
        count = NO_LIMIT if limit is None else limit
        query = "get_flow", (task_id, owner.is_everyone, owner.user_id, count)
        flow = await self._read(lambda rows: Flow(self._tasks_of(rows)), query)
        if task_id not in flow and (limit is None or not len(flow)):
            raise TaskNotFound(task_id=task_id)
        return flow

    async def summary(self, root_id: TaskId, *, owner: Owner) -> FlowSummary:
        """Return the state of a flow without reading its tasks. Raise TaskNotFound if it does not exist."""

        def summarize(statuses: Sequence[Row], waiting: Sequence[Row]) -> FlowSummary:
            counts: dict[str, int] = {row[0]: row[1] for row in statuses}
            if not counts:
                raise TaskNotFound(task_id=root_id)
            return summary_of(root_id, counts, *waiting[0])

        return await self._read(
            summarize,
            ("count_by_status", (root_id, owner.is_everyone, owner.user_id)),
            ("count_waiting", (root_id,)),
        )

    async def list(self, wanted: TaskFilter, *, owner: Owner) -> TaskPage:
        """Return one page of the tasks that match a filter."""
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

        def page(rows: Sequence[Row], total: Sequence[Row]) -> TaskPage:
            return TaskPage(tuple(self._tasks_of(rows)), total[0][0] if total else 0)

        return await self._read(
            page, ("list_tasks", (*parameters, wanted.limit, wanted.offset)), ("count_tasks", parameters)
        )

    async def events(self, wanted: EventFilter, *, owner: Owner) -> Sequence[Event]:
        """Return the events that match a filter."""
        parameters = (wanted.after, owner.is_everyone, owner.user_id, wanted.tree, wanted.task, wanted.limit)
        return await self._read(
            lambda rows: [self._event_of(row) for row in rows], ("list_events", parameters)
        )

    def _tasks_of(self, rows: Sequence[Row]) -> Sequence[Task]:
        return [self.dialect.task_of(row) for row in rows]

    def _event_of(self, row: Row) -> Event:
        seq, kind, task_id, task_tree_id, user_id, at, facts = row
        return Event(
            seq=seq,
            type=EventType(kind),
            task_id=TaskId(str(task_id)),
            task_tree_id=TaskId(str(task_tree_id)),
            user_id=user_id,
            at=self.dialect.time_of(at),
            facts=json_value(facts),
        )


def write_changes(unit: Unit, changes: Sequence[WriteSet]) -> Work[None]:
    """Write the changes of operations that concern different tasks."""
    yield from _add(unit, [task for one in changes for task in one.added])
    yield from _update(unit, [task for one in changes for task in one.updated])
    if deleted := [(task_id,) for one in changes for task_id in one.deleted]:
        yield Many("delete_dependents_of", deleted)
        yield Many("delete_task", deleted)
    for root_id in (root_id for one in changes for root_id in one.run):
        yield "run_flow", (root_id, True, None)
    if recounted := [(task_id,) for one in changes for task_id in one.recounted]:
        yield Many("recount_references", recounted)


def _add(unit: Unit, tasks: Sequence[Task]) -> Work[None]:
    if not tasks:
        return
    statuses = {task.id: task.status for task in tasks}
    task_row = unit.dialect.task_row
    rows = (  # not a list: a flow may have a million tasks
        [*task_row(task), method_of(task), waiting_for(task, statuses), *step]
        for task, step in zip(tasks, step_rows(tasks), strict=True)
    )
    yield Many("insert_task", rows)
    yield Many("mark_referenced", [(root_id,) for root_id in {task.task_tree_id for task in tasks}])
    yield Many("insert_dependent", dependent_rows(tasks))


def _update(unit: Unit, tasks: Sequence[Task]) -> Work[None]:
    """Write changed records, and recount how many dependencies they and their dependents wait for."""
    if not tasks:
        return
    ids = [(task.id,) for task in tasks]
    yield Many("delete_dependents_of", ids)
    yield Many("update_task", ([*unit.dialect.task_row(task), method_of(task)] for task in tasks))
    yield Many("insert_dependents_of", ids)
    yield Many("recount_waiting", ids)
