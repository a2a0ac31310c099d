"""Copies, links and archives: new flows made from stored records."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from weft.errors import RequestError
from weft.ids import NewTaskId, TaskId
from weft.tasks.decisions import Decision, FlowOperation, Snapshot, WriteSet
from weft.tasks.events import EventType, task_event
from weft.tasks.flow import Flow, find_step_owners, reachable
from weft.tasks.operations.submit import created_event
from weft.tasks.parsing.inputs import mapping_problems
from weft.tasks.parsing.problems import InvalidTasks, shown
from weft.tasks.program_params import without_pinned_program
from weft.tasks.record import Dependency, Origin, Status, Task, evolve, first_source
from weft.tasks.steps import STEP, is_step, with_step_fields

NewIds = Mapping[TaskId, TaskId]
"""The id of each new record, by the id of its source."""
Make = Callable[[Task, NewIds], Task]
"""Makes a new record from its source; `derive` sets id, parent and times."""


class SourceNotCompleted(RequestError):
    """Only completed tasks can be linked or archived."""

    code = "source-not-completed"

    def __init__(self, *, tasks: Sequence[Task], what: str) -> None:
        first = ", ".join(f"{shown(task.name)} ({task.id}) is {task.status}" for task in tasks[:5])
        more = f" and {len(tasks) - 5} more" if len(tasks) > 5 else ""
        super().__init__(f"only completed tasks can be {what}: {first}{more}")
        self.tasks = tuple(tasks)


class IsStep(RequestError):
    """The task is a step of a run, which cannot be copied or forked alone."""

    code = "is-step"

    def __init__(self, *, task: Task, run_id: TaskId | None) -> None:
        advice = "" if run_id is None else f" {run_id}; copy that, or fork it: --from {task.id}"
        super().__init__(f"{shown(task.name)} ({task.id}) is a step of a run{advice}")
        self.task_id = task.id
        self.run_id = run_id


def require_completed(tasks: Iterable[Task], *, what: str) -> None:
    """Raise SourceNotCompleted unless every task is completed."""
    unfinished = [task for task in tasks if task.status is not Status.COMPLETED]
    if unfinished:
        raise SourceNotCompleted(tasks=unfinished, what=what)


def derive(
    flow: Flow, selected: Sequence[TaskId], make: Make, *, new_id: NewTaskId, now: datetime
) -> Decision[Flow]:
    """Return the decision to add a flow made from the selected records; the first becomes its root.

    A selected task with a parent that is not selected (a dependency that is copied too) becomes a child
    of the new root.
    """
    new_ids = {task_id: new_id() for task_id in selected}
    top = selected[0]
    parents = {
        task_id: None if task_id == top else new_ids.get(flow[task_id].parent_id or top, new_ids[top])
        for task_id in selected
    }
    with_children = set(parents.values())
    made = [
        evolve(
            make(flow[task_id], new_ids),
            id=new_ids[task_id],
            parent_id=parents[task_id],
            task_tree_id=new_ids[top],
            has_children=new_ids[task_id] in with_children,
            has_references=False,
            created_at=now,
            updated_at=now,
        )
        for task_id in selected
    ]
    return _decision(Flow(made), flow[top], now)


def _decision(derived: Flow, source: Task, now: datetime) -> Decision[Flow]:
    # A link or an archive of a part of a tree has lost its dependencies, so a copy of it could not be run.
    dangling = [
        problem for task in derived if task.status is Status.PENDING for problem in mapping_problems(task)
    ]
    if dangling:
        raise InvalidTasks(dangling)
    sources = frozenset(task.original_task_id for task in derived if task.original_task_id is not None)
    facts = {"by": derived.root.id, "origin": derived.root.origin_type, "tasks": len(derived)}
    referenced = task_event(EventType.TASK_REFERENCED, source, now, facts)
    changes = WriteSet(
        added=tuple(derived), recounted=sources, events=(created_event(derived, now), referenced)
    )
    return Decision(changes, derived)


def remapped(task: Task, new_ids: NewIds) -> tuple[Dependency, ...]:
    """Return the task's dependencies on the new records, without those on tasks that are not selected."""
    return tuple(
        Dependency(new_ids[dependency.id], dependency.required)
        for dependency in task.dependencies
        if dependency.id in new_ids
    )


def as_copy(task: Task, new_ids: NewIds) -> Task:
    """Return a new pending record with the same definition; its schedule is disabled, not to fire twice."""
    return Task(
        id=task.id,
        user_id=task.user_id,
        name=task.name,
        status=Status.PENDING,
        priority=task.priority,
        inputs=task.inputs,
        schemas=task.schemas,
        params=_remapped_params(task, new_ids),
        dependencies=remapped(task, new_ids),
        origin_type=Origin.COPY,
        original_task_id=task.id,
        schedule_type=task.schedule_type,
        schedule_expression=task.schedule_expression,
        schedule_start_at=task.schedule_start_at,
        schedule_end_at=task.schedule_end_at,
        max_runs=task.max_runs,
    )


def as_link(task: Task, new_ids: NewIds) -> Task:
    """Return a completed record with the source's result. A link to a link refers to the first source."""
    linked = _finished(task, new_ids, Origin.LINK, first_source(task))
    if not is_step(task):
        return linked
    # The link is not part of a run, so it is not a step.
    params = {name: value for name, value in (linked.params or {}).items() if name != STEP}
    return evolve(linked, params=params or None)


def as_archive(task: Task, new_ids: NewIds) -> Task:
    """Return a frozen record with all fields of the source. A step that is a link keeps its source."""
    archived = _finished(task, new_ids, Origin.ARCHIVE, task.id)
    if not is_step(task) or task.origin_type is not Origin.LINK:
        return archived
    return with_step_fields(archived, link_of=first_source(task))


def _finished(task: Task, new_ids: NewIds, origin: Origin, source: TaskId | None) -> Task:
    return evolve(
        task,
        dependencies=remapped(task, new_ids),
        params=_remapped_params(task, new_ids),
        origin_type=origin,
        original_task_id=source,
        schedule_enabled=False,
        next_run_at=None,
    )


def with_params(task: Task, **entries: object) -> Task:
    """Return the task with entries of its `params` set."""
    return evolve(task, params={**(task.params or {}), **entries})


def _remapped_params(task: Task, new_ids: NewIds) -> dict[str, object] | None:
    """Return the params with `input_mappings` ("<dependency id>.path") that refer to the new records."""
    mappings = (task.params or {}).get("input_mappings")
    if not isinstance(mappings, dict):
        return task.params
    remapped_paths = {name: _remapped_path(path, new_ids) for name, path in mappings.items()}
    return {**(task.params or {}), "input_mappings": remapped_paths}


def _remapped_path(path: object, new_ids: NewIds) -> object:
    if not isinstance(path, str):
        return path
    source, dot, tail = path.partition(".")
    return f"{new_ids.get(TaskId(source.lower()), source)}{dot}{tail}"


class OutsideDependencies(RequestError):
    """Tasks to be copied depend on tasks that are not copied."""

    code = "outside-dependencies"

    def __init__(self, *, tasks: Sequence[Task]) -> None:
        names = ", ".join(f"{shown(task.name)} ({task.id})" for task in tasks[:5])
        more = f" and {len(tasks) - 5} more" if len(tasks) > 5 else ""
        super().__init__(
            f"depends on tasks outside the copied ones: {names}{more}; copy them too with --with-dependencies"
        )
        self.tasks = tuple(tasks)


class NotInCopy(RequestError):
    """A task to be linked is not among the copied tasks."""

    code = "not-in-copy"

    def __init__(self, *, task_ids: Sequence[TaskId]) -> None:
        super().__init__(f"cannot link tasks that are not copied: {', '.join(task_ids)}")
        self.task_ids = tuple(task_ids)


class CopyTasks(FlowOperation, frozen=True, kw_only=True):
    """Copies a task and its descendants, with some of them linked; the value is the new flow."""

    linked: frozenset[TaskId] = frozenset()
    with_dependencies: bool = False
    is_newest: bool = False
    """Whether to use the newest registered templates; otherwise the versions that the tasks had pinned."""
    is_reusing: bool = False
    """Whether copies of runs may reuse earlier model responses; otherwise they request them again."""
    new_id: NewTaskId
    now: datetime

    def decide(self, found: Snapshot) -> Decision[Flow]:
        flow = found.flow_of(self.task_id)
        selected = select(flow, self.task_id, with_dependencies=self.with_dependencies, linked=self.linked)
        missing = sorted(self.linked.difference(selected))
        if missing:
            raise NotInCopy(task_ids=missing)
        require_completed((flow[task_id] for task_id in selected if task_id in self.linked), what="linked")
        return derive(flow, selected, self._make, new_id=self.new_id, now=self.now)

    def _make(self, task: Task, new_ids: NewIds) -> Task:
        if task.id in self.linked:
            return as_link(task, new_ids)
        copy = as_copy(without_pinned_program(task) if self.is_newest else task, new_ids)
        return with_params(copy, reuse=True) if self.is_reusing else copy


def select(
    flow: Flow, task_id: TaskId, *, with_dependencies: bool, linked: frozenset[TaskId] = frozenset()
) -> list[TaskId]:
    """Return the task, its descendants and, if `with_dependencies`, all they depend on; the task first.

    Dependencies of a linked task are not needed, since it has its result. Steps are never selected: the
    copy of a run makes its own.
    """
    made = find_step_owners(flow)
    if task_id in made:
        raise IsStep(task=flow[task_id], run_id=made[task_id])
    below = [node for node in flow.subtree(task_id) if node not in made]
    edges = {
        node: [target for target in targets if target not in made] if node not in linked else []
        for node, targets in flow.dependencies.items()
    }
    selected = reachable(below, edges)
    outside = selected[len(below) :]
    if outside and not with_dependencies:
        raise OutsideDependencies(tasks=[flow[outsider] for outsider in outside])
    return selected


class LinkTasks(FlowOperation, frozen=True, kw_only=True):
    """Links a task and its descendants, without steps of runs; the value is the new flow."""

    new_id: NewTaskId
    now: datetime

    def decide(self, found: Snapshot) -> Decision[Flow]:
        flow = found.flow_of(self.task_id)
        # The link of a run is its result; the steps of the source show how it was made.
        selected = _completed(flow, self.task_id, what="linked")
        return derive(flow, selected, as_link, new_id=self.new_id, now=self.now)


class ArchiveTasks(FlowOperation, frozen=True, kw_only=True):
    """Archives a task and its descendants; the value is the new, frozen flow."""

    new_id: NewTaskId
    now: datetime

    def decide(self, found: Snapshot) -> Decision[Flow]:
        flow = found.flow_of(self.task_id)
        # A completed run may have failed or cancelled steps, which are archived with it.
        _completed(flow, self.task_id, what="archived")
        selected = flow.subtree(self.task_id)
        return derive(flow, selected, as_archive, new_id=self.new_id, now=self.now)


def _completed(flow: Flow, task_id: TaskId, *, what: str) -> list[TaskId]:
    """Return the task and its descendants without steps. Raise unless all of these are completed."""
    made = find_step_owners(flow)
    selected = [node for node in flow.subtree(task_id) if node == task_id or node not in made]
    require_completed((flow[node] for node in selected), what=what)
    return selected
