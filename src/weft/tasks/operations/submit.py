"""Store a flow that was parsed and checked."""

from datetime import datetime

from msgspec import Struct

from weft.tasks.decisions import Decision, ReadSet, Snapshot, WriteSet
from weft.tasks.events import EventType, NewEvent, task_event
from weft.tasks.flow import Flow, find_step_owners
from weft.tasks.parsing.problems import InvalidTasks, Problem
from weft.tasks.record import JsonObject, Origin, Status, Task, evolve
from weft.tasks.steps import ended_with_run, is_step

_NEEDS_COMPLETED_SOURCE = frozenset({Origin.LINK, Origin.ARCHIVE})


class SubmitFlow(Struct, frozen=True):
    """Adds a flow; the value is the stored flow."""

    flow: Flow
    now: datetime
    is_run: bool = False
    """Whether to mark the flow to be run."""

    def needs(self) -> ReadSet:
        return ReadSet(
            tasks=tuple({task.original_task_id for task in self.flow if task.original_task_id is not None})
        )

    def decide(self, found: Snapshot) -> Decision[Flow]:
        flow = with_ended_steps(without_open_runs(self.flow))
        problems = [problem for task in flow for problem in self._source_problems(task, found)]
        problems += self._mixture_problems()
        if problems:
            raise InvalidTasks(problems)
        # Missing tasks and tasks of other owners do not count as sources: their owners could not delete them.
        sources = frozenset(
            task.original_task_id
            for task in flow
            if task.original_task_id is not None
            and (task.original_task_id in found.tasks or task.original_task_id in flow)
        )
        changes = WriteSet(
            added=tuple(flow),
            recounted=sources,
            run=(flow.root.id,) if self.is_run else (),
            events=(created_event(flow, self.now),),
        )
        return Decision(changes, flow)

    def _source_problems(self, task: Task, found: Snapshot) -> list[Problem]:
        """Return a problem if a link or an archive has no completed source."""
        if task.origin_type not in _NEEDS_COMPLETED_SOURCE or task.original_task_id is None:
            return []
        source = found.tasks.get(task.original_task_id) or self.flow.by_id.get(task.original_task_id)
        if source is not None and source.status is Status.COMPLETED:
            return []
        if self._is_of_run(task) and (source is None or source.status.is_terminal):
            return []  # the record is complete: a run can be imported into another store
        state = "does not exist" if source is None else f"is {source.status}"
        reason = f"the source to {task.origin_type} must be completed, but {task.original_task_id} {state}"
        return [
            Problem("original_task_id", reason, "the id of a completed task", task.original_task_id, task.id)
        ]

    def _is_of_run(self, task: Task) -> bool:
        """Return whether the task is a step, or archived with the steps of a run."""
        return is_step(task) or (task.is_frozen and any(map(is_step, self.flow)))

    def _mixture_problems(self) -> list[Problem]:
        """Return a problem for each task of an archived flow that is not archived itself."""
        if not any(task.is_frozen for task in self.flow):
            return []
        return [
            Problem(
                "origin_type",
                "all tasks of an archived flow must be archived",
                "archive",
                None if task.origin_type is None else task.origin_type.value,
                task.id,
            )
            for task in self.flow
            if not task.is_frozen
        ]


def without_open_runs(flow: Flow) -> Flow:
    """Return the flow without the steps of unfinished runs, which make new steps when they run here."""
    dropped = {
        task_id
        for task_id, maker in find_step_owners(flow).items()
        if maker is not None and not flow[maker].status.is_terminal
    }
    if not dropped:
        return flow
    kept = [task for task in flow if task.id not in dropped]
    parents = {task.parent_id for task in kept}
    return Flow(
        evolve(
            task,
            has_children=task.id in parents,
            dependencies=tuple(needed for needed in task.dependencies if needed.id not in dropped),
        )
        for task in kept
    )


def with_ended_steps(flow: Flow) -> Flow:
    """Return the flow with the open steps of ended runs cancelled: nothing would ever end them."""
    ended = {
        task_id: ended_with_run(flow[task_id], flow[maker])
        for task_id, maker in find_step_owners(flow).items()
        if maker is not None and not flow[task_id].status.is_terminal
    }
    return Flow(ended.get(task.id, task) for task in flow) if ended else flow


def created_event(flow: Flow, now: datetime) -> NewEvent:
    """Return one event for all tasks of a new flow: a flow of 100,000 tasks is one event."""
    root = flow.root
    facts: JsonObject = {"tasks": len(flow), "origin": root.origin_type}
    if root.original_task_id is not None:
        facts["source"] = root.original_task_id
    return task_event(EventType.FLOW_CREATED, root, now, facts)
