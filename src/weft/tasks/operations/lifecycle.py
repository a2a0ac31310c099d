"""Cancel, retry and delete tasks."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct, structs

from weft.ids import TaskId
from weft.tasks.decisions import Decision, FlowOperation, ReadSet, Snapshot, WriteSet
from weft.tasks.events import EventType, NewEvent, task_event
from weft.tasks.flow import Flow
from weft.tasks.parsing.problems import Problem, SeveralProblems, shown
from weft.tasks.questions import is_question, resumed_tasks
from weft.tasks.record import JsonObject, Status, Task, evolve
from weft.tasks.states import Cancelled, Move, Retried, transition
from weft.tasks.steps import is_step


def moved(tasks: Sequence[Task], move: Move) -> Decision[tuple[TaskId, ...]]:
    """Return the decision to apply the same move to several tasks; its value is their ids."""
    after = tuple(transition(task, move) for task in tasks)
    events = tuple(_event(task, move) for task in after)
    return Decision(WriteSet(updated=after, events=events), tuple(task.id for task in after))


def _event(task: Task, move: Move) -> NewEvent:
    facts: JsonObject = {} if task.error is None else {"error": task.error}
    return task_event(move.event_type, task, move.at, facts)


_OPEN = frozenset({Status.PENDING, Status.IN_PROGRESS})


class CancelTasks(FlowOperation, frozen=True, kw_only=True):
    """Cancels the task and its descendants; the value is the ids of the cancelled tasks."""

    reason: str
    now: datetime

    def decide(self, found: Snapshot) -> Decision[tuple[TaskId, ...]]:
        flow = found.flow_of(self.task_id)
        # If nothing is open, the task itself is moved, so that the state machine raises the reason.
        chosen = [task_id for task_id in flow.subtree(self.task_id) if flow[task_id].status in _OPEN]
        move = Cancelled(self.now, self.reason)
        decision = moved([flow[task_id] for task_id in chosen or [self.task_id]], move)
        questions = {task_id for task_id in chosen if is_question(flow[task_id])}
        suspended = [task for task in resumed_tasks(flow, questions) if task.id not in decision.value]
        if not suspended:
            return decision
        # The tasks that asked the questions are resumed without an answer.
        changes = structs.replace(
            decision.changes, updated=(*decision.changes.updated, *suspended), run=(flow.root.id,)
        )
        return Decision(changes, decision.value)


class RetryTasks(FlowOperation, frozen=True, kw_only=True):
    """Makes failed tasks pending again; the value is their ids."""

    now: datetime

    def decide(self, found: Snapshot) -> Decision[tuple[TaskId, ...]]:
        flow = found.flow_of(self.task_id)
        # If no task failed, the task itself is moved, so that the state machine raises the reason.
        # A step is retried with its run: no engine would perform it alone.
        chosen = [
            task_id
            for task_id in flow.subtree(self.task_id)
            if flow[task_id].status is Status.FAILED and not is_step(flow[task_id])
        ]
        return moved([flow[task_id] for task_id in chosen or [self.task_id]], Retried(self.now))


class CannotDelete(SeveralProblems):
    """The tasks cannot be deleted: they have run, or other tasks need them."""

    code = "cannot-delete"

    def headline(self, problem: Problem) -> str:
        return problem.reason  # the reason already names the task


class DeleteTasks(Struct, frozen=True, kw_only=True):
    """Deletes tasks of one or more flows; the value is the deleted ids."""

    task_ids: tuple[TaskId, ...]
    with_children: bool = False
    now: datetime

    def needs(self) -> ReadSet:
        return ReadSet(flows_of=self.task_ids)

    def decide(self, found: Snapshot) -> Decision[tuple[TaskId, ...]]:
        deleted: dict[TaskId, Flow] = {}
        for task_id in self.task_ids:
            flow = found.flow_of(task_id)
            deleted.update(dict.fromkeys(flow.subtree(task_id) if self.with_children else [task_id], flow))
        problems = [
            problem for task_id, flow in deleted.items() for problem in _problems(task_id, flow, deleted)
        ]
        if problems:
            raise CannotDelete(problems)
        return Decision(_changes(deleted, self.now), tuple(deleted))


def _problems(task_id: TaskId, flow: Flow, deleted: dict[TaskId, Flow]) -> Iterator[Problem]:
    task = flow[task_id]
    label = f"{shown(task.name)} ({task.id})"
    if task.status is not Status.PENDING:
        reason = f"{label} is {task.status}; only pending tasks can be deleted"
        yield Problem("status", reason, "pending", task.status.value, task.id)
    left = [child for child in flow.children.get(task_id, []) if child not in deleted]
    if left:
        reason = f"{label} has {len(left)} child tasks; delete them too with --with-children"
        yield Problem("has_children", reason, "no children outside the deletion", left[:20], task.id)
    needing = [dependent for dependent in flow.dependents.get(task_id, []) if dependent not in deleted]
    if needing:
        names = ", ".join(str(shown(flow[dependent].name)) for dependent in needing[:5])
        reason = f"{label} is needed by {len(needing)} other tasks: {names}"
        yield Problem("dependencies", reason, "no dependents outside the deletion", needing[:20], task.id)
    if task.has_references:
        reason = f"{label} is the source of a copy, link or archive"
        yield Problem("has_references", reason, False, True, task.id)


def _changes(deleted: dict[TaskId, Flow], now: datetime) -> WriteSet:
    tasks = [flow[task_id] for task_id, flow in deleted.items()]
    parents = {
        (task.parent_id, deleted[task.id])
        for task in tasks
        if task.parent_id is not None and task.parent_id not in deleted
    }
    updated = [
        evolve(flow[parent], has_children=False, updated_at=now)
        for parent, flow in parents
        if all(child in deleted for child in flow.children[parent])
    ]
    events = [task_event(EventType.TASK_DELETED, task, now, {"name": task.name}) for task in tasks]
    sources = frozenset(task.original_task_id for task in tasks if task.original_task_id is not None)
    return WriteSet(
        updated=tuple(updated),
        deleted=tuple(deleted),
        recounted=sources.difference(deleted),
        events=tuple(events),
    )
