"""Flows: trees of task records with one root. Their graphs, nested JSON form and HTML."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from weft.errors import EXIT_NOT_FOUND, RequestError
from weft.ids import LAST, TaskId, is_task_id
from weft.limits import MAX_NESTED_DEPTH
from weft.tasks.parsing.problems import task_object
from weft.tasks.record import Status, Task
from weft.tasks.steps import is_step, program_position

Edges = Mapping[TaskId, Sequence[TaskId]]


def find_cycles(edges: Edges) -> list[tuple[TaskId, ...]]:
    """Return disjoint cycles of the graph, each as its nodes in edge order.

    Not every cycle is returned, but at least one of several connected cycles. Edges to unknown nodes are
    ignored.
    """
    stuck = _unordered(edges)
    # Each stuck node has an edge to another stuck node, so following these edges always ends in a cycle.
    following = {node: next(target for target in edges[node] if target in stuck) for node in stuck}
    cycles: list[tuple[TaskId, ...]] = []
    seen_in: dict[TaskId, TaskId] = {}
    for start in stuck:
        walk: list[TaskId] = []
        node = start
        while node not in seen_in:
            seen_in[node] = start
            walk.append(node)
            node = following[node]
        if seen_in[node] == start:
            cycles.append(tuple(walk[walk.index(node) :]))
    return cycles


def _unordered(edges: Edges) -> dict[TaskId, None]:
    """Return the nodes that a topological sort does not reach, in the graph's order."""
    waiting = {node: sum(target in edges for target in targets) for node, targets in edges.items()}
    sources = reverse(edges)
    ready = deque(node for node, count in waiting.items() if count == 0)
    while ready:
        node = ready.popleft()
        del waiting[node]
        for source in sources.get(node, ()):
            waiting[source] -= 1
            if waiting[source] == 0:
                ready.append(source)
    return dict.fromkeys(waiting)


def reverse(edges: Edges) -> dict[TaskId, list[TaskId]]:
    """Return the graph with every edge reversed, without edges to unknown nodes."""
    reversed_edges: dict[TaskId, list[TaskId]] = {}
    for node, targets in edges.items():
        for target in targets:
            if target in edges:
                reversed_edges.setdefault(target, []).append(node)
    return reversed_edges


def reachable(starts: Iterable[TaskId], edges: Edges) -> list[TaskId]:
    """Return the starts and everything reachable from them, each once, nearest first."""
    found = dict.fromkeys(starts)
    queue = deque(found)
    while queue:
        for target in edges.get(queue.popleft(), ()):
            if target not in found:
                found[target] = None
                queue.append(target)
    return list(found)


MAX_ROWS = 500
"""Maximum number of tasks that `flow_html` shows in a notebook cell."""

_COLOURS = {
    Status.PENDING: "#777",
    Status.IN_PROGRESS: "#0086b3",
    Status.COMPLETED: "#2a8a2a",
    Status.FAILED: "#c62828",
    Status.CANCELLED: "#b58900",
}


def flow_html(flow: "Flow") -> str:
    """Return the tree as an HTML table: name, status, progress, error."""
    rows = []
    for number, (task, depth) in enumerate(flow.walk()):
        if number == MAX_ROWS:
            rows.append(f"<tr><td colspan=4>... {len(flow) - MAX_ROWS:,} more</td></tr>")
            break
        rows.append(_row(task, depth))
    heads = "<tr><th style='text-align:left'>task</th><th>status</th><th>done</th><th>error</th></tr>"
    return f"<table>{heads}{''.join(rows)}</table>"


def _row(task: Task, depth: int) -> str:
    from html import escape  # imported here, because only notebooks show flows as HTML

    name = f"<td style='text-align:left;padding-left:{depth * 1.5 + 0.5}em'>{escape(task.name)}</td>"
    status = f"<td style='color:{_COLOURS[task.status]}'>{task.status.value}</td>"
    details = f"<td>{task.progress:.0%}</td><td>{escape(task.error or '')}</td>"
    return f"<tr title='{task.id}'>{name}{status}{details}</tr>"


class TaskNotFound(RequestError):
    """The task does not exist, or it belongs to another owner."""

    code = "task-not-found"
    exit_code = EXIT_NOT_FOUND

    def __init__(self, *, task_id: str) -> None:
        known = f"no task {task_id}" if is_task_id(task_id) else f"no task's id begins with {task_id!r}"
        super().__init__("there is no run yet" if task_id == LAST else known)
        self.task_id = task_id


MAX_CANDIDATES = 10


class AmbiguousId(RequestError):
    """The ids of several tasks begin with the given prefix."""

    code = "ambiguous-id"

    def __init__(self, prefix: str, candidates: Sequence[Task]) -> None:
        most = f"more than {MAX_CANDIDATES}" if len(candidates) > MAX_CANDIDATES else str(len(candidates))
        super().__init__(f"the ids of {most} tasks begin with {prefix!r}; give more of the id")
        self._candidates = candidates[:MAX_CANDIDATES]

    def problems(self) -> list[dict[str, Any]]:
        return [{"path": task.id, "reason": f"{task.name} ({task.status})"} for task in self._candidates]


class Flow:
    """The records of one flow in creation order, with lookups of children, dependencies and dependents."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self.by_id: dict[TaskId, Task] = {task.id: task for task in tasks}

    def __iter__(self) -> Iterator[Task]:
        return iter(self.by_id.values())

    def __len__(self) -> int:
        return len(self.by_id)

    def __contains__(self, task_id: object) -> bool:
        return task_id in self.by_id

    def __getitem__(self, task_id: TaskId) -> Task:
        try:
            return self.by_id[task_id]
        except KeyError:
            raise TaskNotFound(task_id=task_id) from None

    @cached_property
    def root(self) -> Task:
        return next(task for task in self if task.parent_id is None)

    @cached_property
    def children(self) -> dict[TaskId, list[TaskId]]:
        """Return the children of each parent, in creation order; steps are in program order."""
        found: dict[TaskId, list[TaskId]] = {}
        for task in self:
            if task.parent_id is not None:
                found.setdefault(task.parent_id, []).append(task.id)
        for siblings in found.values():
            # Steps are stored in the order in which they end, but shown in program order.
            if is_step(self.by_id[siblings[0]]):
                siblings.sort(key=lambda task_id: program_position(self.by_id[task_id]))
        return found

    @cached_property
    def dependencies(self) -> dict[TaskId, Sequence[TaskId]]:
        return {task.id: [dependency.id for dependency in task.dependencies] for task in self}

    @cached_property
    def dependents(self) -> dict[TaskId, list[TaskId]]:
        return reverse(self.dependencies)

    def subtree(self, task_id: TaskId) -> list[TaskId]:
        """Return the task and all its descendants, parents before children."""
        return reachable([self[task_id].id], self.children)

    def _repr_html_(self) -> str:
        return flow_html(self)

    def walk(self) -> Iterator[tuple[Task, int]]:
        """Yield every task with its depth, in the order of a printed tree."""
        stack = [(self.root.id, 0)]
        while stack:
            task_id, depth = stack.pop()
            yield self.by_id[task_id], depth
            stack.extend((child, depth + 1) for child in reversed(self.children.get(task_id, [])))


def find_step_owners(flow: Flow) -> dict[TaskId, TaskId | None]:
    """Return, by step or descendant of a step, the task that made it; None if that is not in the flow."""
    found: dict[TaskId, TaskId | None] = {}
    if not any(map(is_step, flow)):
        return found
    for task, _ in flow.walk():
        if task.parent_id in found:
            found[task.id] = found[task.parent_id]
        elif is_step(task):
            found[task.id] = task.parent_id
    return found


def nested_json(flow: Flow) -> bytes:
    """Return the flow in nested JSON form, or as a flat list if it is too deep for JSON parsers."""
    if max(depth for _, depth in flow.walk()) >= MAX_NESTED_DEPTH:
        return msgspec.json.format(msgspec.json.encode([task_object(task) for task in flow]), indent=2)
    return msgspec.json.format(b"".join(_nested_parts(flow)), indent=2)


def _nested_parts(flow: Flow) -> Iterator[bytes]:
    open_nodes = 0
    for task, depth in flow.walk():
        if depth < open_nodes:
            yield b"]}" * (open_nodes - depth)
            yield b","
        yield b'{"task":' + msgspec.json.encode(task_object(task)) + b',"children":['
        open_nodes = depth + 1
    yield b"]}" * open_nodes
