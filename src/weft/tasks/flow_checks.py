"""Rules between the tasks of a flow: unique ids, dependencies, one tree, one owner."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from weft.ids import TaskId
from weft.tasks import graph
from weft.tasks.problems import Problem, joined, shown
from weft.tasks.record import Task


class Node(Struct):
    """What the rules need to know of a task, so that they can be checked although other fields are wrong."""

    id: TaskId
    name: str
    parent_id: TaskId | None
    dependencies: Sequence[TaskId | None]
    """None holds the place of one that is wrong in itself and was reported."""
    user_id: str | None
    path: str


def node_of(task: Task, path: str = "") -> Node:
    """The node of a task that has been read."""
    dependencies: list[TaskId | None] = [dependency.id for dependency in task.dependencies]
    return Node(task.id, task.name, task.parent_id, dependencies, task.user_id, path)


def flow_problems(nodes: Sequence[Node]) -> list[Problem]:
    """Every rule between tasks that the flow breaks."""
    by_id: dict[TaskId, Node] = {}
    problems: list[Problem] = []
    for node in nodes:
        if by_id.setdefault(node.id, node) is not node:
            first = by_id[node.id].path
            problems.append(_problem(node, "id", f"is the id of {first} too", "an id of its own", node.id))
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
    for cycle in graph.find_cycles(edges):
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
    for cycle in graph.find_cycles(parents):
        yield _cycle(cycle, by_id, "parent_id", "parents form a cycle")


def _cycle(cycle: Sequence[TaskId], by_id: dict[TaskId, Node], field: str, what: str) -> Problem:
    names = [str(shown(by_id[task_id].name)) for task_id in cycle]
    labels = names if len(set(names)) == len(names) else [str(task_id) for task_id in cycle]
    labels.append(labels[0])
    if len(labels) > 20:
        labels = [*labels[:10], f"... {len(labels) - 20} more ...", *labels[-10:]]
    return _problem(by_id[cycle[0]], field, f"{what}: {' -> '.join(labels)}", "no cycle", list(cycle[:100]))


def _problem(node: Node, where: str, reason: str, expected: object, actual: object) -> Problem:
    field = where.partition("[")[0]
    return Problem(
        field=field, reason=reason, expected=expected, actual=shown(actual), path=joined(node.path, where)
    )
