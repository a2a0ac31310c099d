"""What tests build flows from."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from weft.ids import TaskId
from weft.tasks.decisions import Decision, Snapshot, TaskOperation
from weft.tasks.flow import Flow
from weft.tasks.operations.lifecycle import moved
from weft.tasks.parsing.flow_parser import read_flow
from weft.tasks.record import Status, Task, evolve
from weft.tasks.states import Move

T = TypeVar("T")
E = TypeVar("E", bound=Exception)

NOON = datetime(2025, 1, 15, 12, tzinfo=UTC)


def numbered_ids(prefix: str = "a") -> Callable[[], TaskId]:
    """Ids that tell in tests which task was made when: ...-000000000001, and so on."""
    count = 0

    def make() -> TaskId:
        nonlocal count
        count += 1
        return TaskId(f"{prefix * 8}-0000-4000-8000-{count:012x}")

    return make


def a_flow(*tasks: dict[str, Any] | str, prefix: str = "a", user_id: str | None = None) -> Flow:
    """Return a flow of tasks given by name or by their fields; the first is the root."""
    document = [{"name": task} if isinstance(task, str) else task for task in tasks]
    return read_flow(document, new_id=numbered_ids(prefix), now=NOON, user_id=user_id)


def completed(flow: Flow) -> Flow:
    """Return the flow with every task completed; each result names its task."""
    return Flow(
        evolve(
            task,
            status=Status.COMPLETED,
            started_at=NOON,
            completed_at=NOON,
            progress=1.0,
            result={"made_by": task.name},
        )
        for task in flow
    )


def named(flow: Flow, name: str) -> Task:
    (found,) = (task for task in flow if task.name == name)
    return found


def a_task(**fields: Any) -> Task:
    """Return a task, pending unless the fields say otherwise; nothing is checked."""
    return evolve(Task(id=numbered_ids("c")(), name="t", status=Status.PENDING), **fields)


def in_status(status: Status, **fields: Any) -> Task:
    """Return a task whose fields agree with the status."""
    begun = {} if status is Status.PENDING else {"started_at": NOON}
    ended = {"completed_at": NOON} if status.is_terminal else {}
    outcome: dict[Status, dict[str, Any]] = {
        Status.COMPLETED: {"result": {"value": 1}, "progress": 1.0},
        Status.FAILED: {"error": "broke"},
        Status.CANCELLED: {"error": "called off"},
    }
    return a_task(status=status, **{**begun, **ended, **outcome.get(status, {}), **fields})


def found_in(*flows: Flow) -> Snapshot:
    """Return a snapshot of a store that holds the flows."""
    return Snapshot(
        tasks={task.id: task for flow in flows for task in flow},
        flows={task.id: flow for flow in flows for task in flow},
    )


class MoveTask(TaskOperation, frozen=True):
    """Applies one move to one task, as operations do; the value is the task afterwards."""

    move: Move

    def decide(self, found: Snapshot) -> Decision[Task]:
        changes = moved([found.task(self.task_id)], self.move).changes
        return Decision(changes, changes.updated[0])


def with_task(flow: Flow, task: Task) -> Flow:
    """Return the flow with the task of the same id replaced."""
    return Flow(task if task.id == other.id else other for other in flow)


def outcome_of(act: Callable[[], T], *, refusal: type[E]) -> T | E:
    """Return what the act returns, or the refusal that it raises; any other error fails the test."""
    try:
        return act()
    except refusal as error:
        return error


def a_chain(length: int, *, linked_by: str) -> list[dict[str, Any]]:
    """Return a document of tasks, each the child of the one before, or dependent on it."""
    ids = [f"aaaaaaaa-0000-4000-8000-{number:012x}" for number in range(length)]
    tasks: list[dict[str, Any]] = [{"id": task_id, "name": f"t{task_id[-6:]}"} for task_id in ids]
    for task, before in zip(tasks[1:], ids, strict=False):
        task[linked_by] = before if linked_by == "parent_id" else [{"id": before}]
    return tasks


def an_unchecked_chain(length: int, *, linked_by: str) -> Flow:
    """Return the chain as a flow, without the checks that other tests are about."""
    document = a_chain(length, linked_by=linked_by)
    for task in document:
        task["status"] = "pending"
        if task is not document[0]:
            task.setdefault("parent_id", document[0]["id"])
    return Flow(msgspec.convert(document, list[Task]))
