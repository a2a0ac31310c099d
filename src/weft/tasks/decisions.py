"""Operations: pure decisions about changes that a store then writes in one transaction.

The store reads what the operation needs, passes it as a `Snapshot`, and applies the resulting `WriteSet`. All
rules are in the operations; the stores know none of them.
"""

from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from weft.ids import TaskId
from weft.tasks.events import NewEvent
from weft.tasks.flow import Flow, TaskNotFound
from weft.tasks.record import Task

T = TypeVar("T")


class ReadSet(Struct, frozen=True):
    """The ids of the tasks that an operation must read.

    `tasks` are read alone, `flows_of` with the whole flow that contains them; for `unfinished_runs_of`
    the store finds out which have a copy that is still running.
    """

    tasks: tuple[TaskId, ...] = ()
    flows_of: tuple[TaskId, ...] = ()
    unfinished_runs_of: tuple[TaskId, ...] = ()


class Snapshot(Struct, frozen=True):
    """The records that the store found for a `ReadSet`. Tasks of other owners are missing."""

    tasks: Mapping[TaskId, Task] = {}
    flows: Mapping[TaskId, Flow] = {}
    with_unfinished_runs: frozenset[TaskId] = frozenset()
    """The tasks of `ReadSet.unfinished_runs_of` that have a copied flow that is still running."""

    def task(self, task_id: TaskId) -> Task:
        return _found(self.tasks, task_id)

    def flow_of(self, task_id: TaskId) -> Flow:
        """Return the flow that contains the task. Raise TaskNotFound if it is missing."""
        return _found(self.flows, task_id)


def _found(records: Mapping[TaskId, T], task_id: TaskId) -> T:
    if task_id not in records:
        raise TaskNotFound(task_id=task_id)
    return records[task_id]


class WriteSet(Struct, frozen=True, kw_only=True):
    """The changes to write, all or none."""

    added: tuple[Task, ...] = ()
    updated: tuple[Task, ...] = ()
    deleted: tuple[TaskId, ...] = ()
    recounted: frozenset[TaskId] = frozenset()
    """Source tasks for which the store must recompute `has_references` after the other writes."""
    run: tuple[TaskId, ...] = ()
    """Roots of flows to mark as running, for any engine."""
    events: tuple[NewEvent, ...] = ()


class Decision(Struct, Generic[T], frozen=True):
    """The changes of an operation, and the value that its caller gets once they are committed."""

    changes: WriteSet
    value: T


class Operation(Protocol[T]):
    """One change of tasks, made in one transaction."""

    def needs(self) -> ReadSet:
        """Return what must be read first."""

    def decide(self, found: Snapshot) -> "Decision[T]":
        """Return the changes. Raise RequestError if a rule forbids them."""


class TaskOperation(Struct, frozen=True):
    """An operation that reads one task."""

    task_id: TaskId

    def needs(self) -> ReadSet:
        return ReadSet(tasks=(self.task_id,))


class FlowOperation(Struct, frozen=True):
    """An operation that reads a task and the whole flow that contains it."""

    task_id: TaskId

    def needs(self) -> ReadSet:
        return ReadSet(flows_of=(self.task_id,))
