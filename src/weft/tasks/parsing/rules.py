"""Validation rules for a task, and between the tasks of a flow."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from weft.ids import TaskId
from weft.tasks.flow import find_cycles
from weft.tasks.parsing.fields import read_task, readable_part
from weft.tasks.parsing.inputs import input_problems, mapping_problems
from weft.tasks.parsing.problems import Problem, joined, problem_at, shown
from weft.tasks.policies import retry_problems, timeout_problems
from weft.tasks.record import JsonObject, Origin, ScheduleType, Status, Task
from weft.tasks.schedules.expressions import parse_expression
from weft.tasks.schedules.schedule import catch_up, check, overlap, schedule_of, time_zone
from weft.tasks.schedules.timezones import ScheduleError, zone_named
from weft.tasks.steps import is_step

_ERROR_STATES = frozenset({Status.FAILED, Status.CANCELLED})


def consistency_problems(task: Task, *, path: str = "") -> list[Problem]:
    """Return a problem for each rule between its fields that the task breaks."""
    found = [*_status_problems(task), *_origin_problems(task), *_schedule_problems(task)]
    problems = [problem_at(path, *finding) for finding in found]
    if task.params:
        problems += retry_problems(task, path=path) + timeout_problems(task, path=path)
    # A completed task needs no mapping. A link or archive of a part of a tree loses the mapped dependencies.
    if task.params and task.status is not Status.COMPLETED:
        problems += mapping_problems(task, path=path)
    return problems


_Finding = tuple[str, str, object, object]
"""A broken rule: field, reason, expected and actual value."""


def _status_problems(task: Task) -> Iterator[_Finding]:
    status = task.status
    if task.result is not None and status is not Status.COMPLETED:
        yield "result", f"must be null while status is {status}", None, task.result
    if task.error is not None and status not in _ERROR_STATES:
        yield "error", f"must be null while status is {status}", None, task.error
    if task.error is None and status in _ERROR_STATES:
        yield "error", f"must say why the task is {status}", "a non-empty string", None
    if task.started_at is not None and status is Status.PENDING:
        yield "started_at", "must be null while status is pending", None, task.started_at.isoformat()
    if task.started_at is None and status is Status.IN_PROGRESS:
        yield "started_at", "must be set when status is in_progress", "a date and time", None
    if task.completed_at is not None and not status.is_terminal:
        yield "completed_at", f"must be null while status is {status}", None, task.completed_at.isoformat()
    if task.completed_at is None and status.is_terminal:
        yield "completed_at", f"must be set when status is {status}", "a date and time", None
    if status is Status.PENDING and task.progress != 0.0:
        yield "progress", "must be 0 while status is pending", 0.0, task.progress
    if status is Status.COMPLETED and task.progress != 1.0:
        yield "progress", "must be 1 when status is completed", 1.0, task.progress


def _origin_problems(task: Task) -> Iterator[_Finding]:
    source = task.original_task_id
    if task.origin_type in {Origin.LINK, Origin.ARCHIVE}:
        when = f"when origin_type is {task.origin_type}"
        if source is None:
            yield "original_task_id", f"must name the source {when}", "the id of a task", None
        is_archived_step = task.is_frozen and task.status.is_terminal and is_step(task)
        if task.status is not Status.COMPLETED and not is_archived_step:
            yield "status", f"must be completed {when}", "completed", task.status.value
    if source == task.id:
        yield "original_task_id", "must not be the task itself", "the id of another task", source


def _schedule_problems(task: Task) -> Iterator[_Finding]:
    if task.max_runs is not None and task.run_count > task.max_runs:
        yield "run_count", "must not be more than max_runs", task.max_runs, task.run_count
    end, due = task.schedule_end_at, task.next_run_at
    if end is not None and due is not None and due > end:
        reason = "must not be later than schedule_end_at"
        yield "next_run_at", reason, end.isoformat(), due.isoformat()
    # "When schedule_enabled is false, scheduling fields MAY be present but are ignored."
    if not task.schedule_enabled:
        return
    for field in ("schedule_type", "schedule_expression"):
        if getattr(task, field) is None:
            yield field, "must be set when schedule_enabled is true", "a value", None
    if task.schedule_type is not None and task.schedule_expression is not None:
        yield from _schedule_findings(task, task.schedule_type, task.schedule_expression)


def _schedule_findings(task: Task, kind: ScheduleType, expression: str) -> Iterator[_Finding]:
    parts: tuple[Callable[[], object], ...] = (
        lambda: parse_expression(kind, expression),
        lambda: zone_named(time_zone(task.params)),
        lambda: catch_up(task.params),
        lambda: overlap(task.params),
    )
    errors = [error for part in parts if (error := _error_of(part))]
    # The window and the range of times can only be checked if all parts are valid.
    whole = None if errors else _error_of(lambda: check(schedule_of(task)))
    for error in [*errors, *([whole] if whole else [])]:
        yield error.field, error.reason, error.expected, error.actual


def _error_of(read: Callable[[], object]) -> ScheduleError | None:
    try:
        read()
    except ScheduleError as error:
        return error
    return None


def checked_task(raw: JsonObject, *, path: str = "") -> tuple[Task | None, list[Problem]]:
    """Return the task that a JSON object describes, or None if fields are invalid; and all broken rules.

    Rules between the valid fields are checked even if other fields are invalid.
    """
    task, problems = read_task(raw, path=path)
    wrong = {problem.field for problem in problems}
    part = readable_part(raw, wrong) if task is None else task
    if part is not None:
        found = [*consistency_problems(part, path=path), *input_problems(part, path=path, is_stored=True)]
        problems += [problem for problem in found if problem.field.partition(".")[0] not in wrong]
    return task, problems


class Node(Struct):
    """The part of a task that the rules of a flow need, available even if other fields are invalid."""

    id: TaskId
    name: str
    parent_id: TaskId | None
    dependencies: Sequence[TaskId | None]
    """None stands for an invalid entry that was already reported."""
    user_id: str | None
    path: str


def node_of(task: Task, path: str = "") -> Node:
    dependencies: list[TaskId | None] = [dependency.id for dependency in task.dependencies]
    return Node(task.id, task.name, task.parent_id, dependencies, task.user_id, path)


def flow_problems(nodes: Sequence[Node]) -> list[Problem]:
    """Return a problem for each rule between its tasks that the flow breaks."""
    by_id: dict[TaskId, Node] = {}
    problems: list[Problem] = []
    for node in nodes:
        if by_id.setdefault(node.id, node) is not node:
            first = by_id[node.id].path
            problems.append(_problem(node, "id", f"is also the id of {first}", "a unique id", node.id))
    problems.extend(_dependency_problems(nodes, by_id))
    problems.extend(_tree_problems(nodes, by_id))
    return problems


def _dependency_problems(nodes: Iterable[Node], by_id: dict[TaskId, Node]) -> Iterator[Problem]:
    for node in nodes:
        seen: set[TaskId] = set()
        for index, target in enumerate(node.dependencies):
            if target is None:
                continue
            if target != node.id and target in by_id and target not in seen:
                seen.add(target)
                continue
            where = joined("dependencies", index)
            if target == node.id:
                yield _problem(node, where, "a task must not depend on itself", "another task", target)
            elif target not in by_id:
                reason = f"depends on {target}, which is not a task of this flow"
                yield _problem(node, where, reason, "the id or name of a task of the same flow", target)
            else:
                yield _problem(node, where, f"depends on {target} twice", "each dependency once", target)
    edges = {
        node.id: [target for target in node.dependencies if target is not None and target != node.id]
        for node in by_id.values()
    }
    for cycle in find_cycles(edges):
        yield _cycle(cycle, by_id, "dependencies", "dependencies form a cycle")


def _tree_problems(nodes: Sequence[Node], by_id: dict[TaskId, Node]) -> Iterator[Problem]:
    roots = [node for node in nodes if node.parent_id is None]
    if len(roots) > 1:
        names = ", ".join(repr(shown(root.name)) for root in roots[:5]) + (" ..." if len(roots) > 5 else "")
        reason = f"a flow has one root, but {len(roots)} tasks have no parent: {names}"
        yield _problem(roots[1], "parent_id", reason, "the id of a parent in all tasks but one", None)
    for node in nodes:
        if node.parent_id is not None and node.parent_id not in by_id:
            reason = f"parent {node.parent_id} is not a task of this flow"
            yield _problem(node, "parent_id", reason, "the id of a task of the same flow", node.parent_id)
        if node.user_id != nodes[0].user_id:
            reason = f"owner {shown(node.user_id)!r} differs from the flow's, {shown(nodes[0].user_id)!r}"
            yield _problem(node, "user_id", reason, shown(nodes[0].user_id), node.user_id)
    parents = {node.id: () if node.parent_id is None else (node.parent_id,) for node in by_id.values()}
    for cycle in find_cycles(parents):
        yield _cycle(cycle, by_id, "parent_id", "parents form a cycle")


def _cycle(cycle: Sequence[TaskId], by_id: dict[TaskId, Node], field: str, what: str) -> Problem:
    names = [str(shown(by_id[task_id].name)) for task_id in cycle]
    labels = names if len(set(names)) == len(names) else [str(task_id) for task_id in cycle]
    labels.append(labels[0])
    if len(labels) > 20:
        labels = [*labels[:10], f"... {len(labels) - 20} more ...", *labels[-10:]]
    return _problem(by_id[cycle[0]], field, f"{what}: {' -> '.join(labels)}", "no cycle", list(cycle[:100]))


def _problem(node: Node, where: str, reason: str, expected: object, actual: object) -> Problem:
    return problem_at(node.path, where, reason, expected, actual)
