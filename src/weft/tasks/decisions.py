"""An operation decides, purely, what a store then writes in one transaction.

The store reads what the operation asks for, hands it over as `Snapshot`, and applies the `WriteSet`. The
rules live in the operations; the stores know none of them.
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
    """What an operation must see: single tasks, tasks with the whole flow they are in, and which of some
    tasks have a copy that is still to be run."""

    tasks: tuple[TaskId, ...] = ()
    flows_of: tuple[TaskId, ...] = ()
    unfinished_runs_of: tuple[TaskId, ...] = ()


class Snapshot(Struct, frozen=True):
    """What the store found of an operation's needs. Another owner's tasks are simply not there."""

    tasks: Mapping[TaskId, Task] = {}
    flows: Mapping[TaskId, Flow] = {}
    with_unfinished_runs: frozenset[TaskId] = frozenset()
    """Those of `ReadSet.unfinished_runs_of` from which a flow was made that is still to be run."""

    def task(self, task_id: TaskId) -> Task:
        found = self.tasks.get(task_id)
        if found is None:
            raise TaskNotFound(task_id=task_id)
        return found

    def flow_of(self, task_id: TaskId) -> Flow:
        """The flow the task is in; one flow may have been asked for by several of its tasks."""
        found = self.flows.get(task_id)
        if found is None:
            raise TaskNotFound(task_id=task_id)
        return found


class WriteSet(Struct, frozen=True, kw_only=True):
    """What to write, all or nothing."""

    added: tuple[Task, ...] = ()
    updated: tuple[Task, ...] = ()
    deleted: tuple[TaskId, ...] = ()
    recounted: frozenset[TaskId] = frozenset()
    """Sources whose `has_references` the store must work out anew after the other writes."""
    run: tuple[TaskId, ...] = ()
    """Roots of flows that are to be run, by whichever engine comes first."""
    events: tuple[NewEvent, ...] = ()


class Decision(Struct, Generic[T], frozen=True):
    """An operation's changes, and the value its caller gets once they are committed."""

    changes: WriteSet
    value: T


class Operation(Protocol[T]):
    """One act on tasks; one transaction."""

    def needs(self) -> ReadSet:
        """What must be read first."""
        ...

    def decide(self, found: Snapshot) -> "Decision[T]":
        """What to write; raises a RequestError when a rule forbids it."""
        ...
