"""Walks over graphs of ids. All are loops, none recurses: a chain of 100,000 is a normal input."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from weft.ids import TaskId

Edges = Mapping[TaskId, Sequence[TaskId]]


def find_cycles(edges: Edges) -> list[tuple[TaskId, ...]]:
    """Disjoint cycles of the graph, each as its nodes in edge order; empty when there is none.

    Every knot of cycles yields at least one of them. Edges to unknown nodes count for nothing.
    """
    stuck = _unordered(edges)
    # Each stuck node has an edge to another stuck one, so following those always ends in a cycle.
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
    """The nodes that no topological order reaches, in the graph's order."""
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
    """The graph with every edge turned round, among known nodes."""
    turned: dict[TaskId, list[TaskId]] = {}
    for node, targets in edges.items():
        for target in targets:
            if target in edges:
                turned.setdefault(target, []).append(node)
    return turned


def reachable(starts: Iterable[TaskId], edges: Edges) -> list[TaskId]:
    """The starts and everything their edges lead to, each once, nearest first."""
    found = dict.fromkeys(starts)
    queue = deque(found)
    while queue:
        for target in edges.get(queue.popleft(), ()):
            if target not in found:
                found[target] = None
                queue.append(target)
    return list(found)
