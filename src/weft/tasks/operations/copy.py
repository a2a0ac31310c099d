"""Copy a task with everything below it, as a new pending flow; some of it may be linked."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from weft.errors import RequestError
from weft.ids import NewTaskId, TaskId
from weft.tasks import graph
from weft.tasks.changes import Decision, Found, Needs
from weft.tasks.flow import Flow
from weft.tasks.operations.derive import IsStep, NewIds, as_copy, as_link, derive, require_completed
from weft.tasks.pinned import unpinned
from weft.tasks.problems import shown
from weft.tasks.record import Task, evolve
from weft.tasks.steps import makers


class OutsideDependencies(RequestError):
    """Tasks to be copied depend on tasks that are not to be copied."""

    code = "outside-dependencies"

    def __init__(self, *, tasks: Sequence[Task]) -> None:
        names = ", ".join(f"{shown(task.name)} ({task.id})" for task in tasks[:5])
        more = f" and {len(tasks) - 5} more" if len(tasks) > 5 else ""
        super().__init__(
            f"depends on tasks outside the copied ones: {names}{more}; copy them too with --with-dependencies"
        )
        self.tasks = tuple(tasks)


class NotInCopy(RequestError):
    """A task that was to be linked is not among those copied."""

    code = "not-in-copy"

    def __init__(self, *, task_ids: Sequence[TaskId]) -> None:
        super().__init__(f"cannot link what is not copied: {', '.join(task_ids)}")
        self.task_ids = tuple(task_ids)


class CopyTasks(Struct, frozen=True, kw_only=True):
    """Copies a task and its descendants, but links those that are named; its value is the new flow."""

    task_id: TaskId
    linked: frozenset[TaskId] = frozenset()
    with_dependencies: bool = False
    is_newest: bool = False
    """Whether templates are taken as they are registered by then; else as the tasks had pinned them."""
    is_reusing: bool = False
    """Whether the copies of runs may link what models answered before; else they ask."""
    new_id: NewTaskId
    now: datetime

    def needs(self) -> Needs:
        return Needs(flows_of=(self.task_id,))

    def decide(self, found: Found) -> Decision[Flow]:
        flow = found.flow_of(self.task_id)
        selected = select(flow, self.task_id, with_dependencies=self.with_dependencies, linked=self.linked)
        strangers = sorted(self.linked.difference(selected))
        if strangers:
            raise NotInCopy(task_ids=strangers)
        require_completed((flow[task_id] for task_id in selected if task_id in self.linked), what="linked")
        return derive(flow, selected, self._make, new_id=self.new_id, now=self.now)

    def _make(self, task: Task, new_ids: NewIds) -> Task:
        if task.id in self.linked:
            return as_link(task, new_ids)
        copy = as_copy(unpinned(task) if self.is_newest else task, new_ids)
        return evolve(copy, params={**(copy.params or {}), "reuse": True}) if self.is_reusing else copy


def select(
    flow: Flow, task_id: TaskId, *, with_dependencies: bool, linked: frozenset[TaskId] = frozenset()
) -> list[TaskId]:
    """The task, its descendants and, on request, all they depend on, each once; the task first.

    A linked task brings its result, so what it depended on need not come along. Steps never do: the copy of a
    run makes its own when it is evaluated.
    """
    made = makers(flow)
    if task_id in made:
        raise IsStep(task=flow[task_id], run_id=made[task_id])
    below = [node for node in flow.subtree(task_id) if node not in made]
    edges = {
        node: [target for target in targets if target not in made] if node not in linked else []
        for node, targets in flow.dependencies.items()
    }
    selected = graph.reachable(below, edges)
    outside = selected[len(below) :]
    if outside and not with_dependencies:
        raise OutsideDependencies(tasks=[flow[outsider] for outsider in outside])
    return selected
