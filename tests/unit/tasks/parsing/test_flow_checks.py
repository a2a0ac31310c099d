"""Rules between the tasks of a flow."""

from collections.abc import Sequence

import pytest

from tests.builders import a_flow
from weft.ids import TaskId
from weft.tasks.parsing.rules import Node, flow_problems, node_of


def node(
    name: str, parent: str | None = None, needs: Sequence[str | None] = (), user_id: str | None = None
) -> Node:
    """Return a node whose id is its name; `root` is the only one without a parent."""
    dependencies = [None if need is None else TaskId(need) for need in needs]
    return Node(
        TaskId(name), name, None if parent is None else TaskId(parent), dependencies, user_id, f"<{name}>"
    )


def found(*nodes: Node) -> list[tuple[str, str]]:
    return [(problem.path, problem.reason) for problem in flow_problems(nodes)]


def test_a_tree_with_acyclic_dependencies_breaks_no_rule() -> None:
    flow = a_flow("root", {"name": "b", "dependencies": ["c", "root"]}, "c")

    assert flow_problems([node_of(task) for task in flow]) == []


ROOT = node("root")


@pytest.mark.parametrize(
    ("nodes", "path", "reason"),
    [
        ([ROOT, node("root")], "<root>.id", "is also the id of <root>"),
        ([ROOT, node("b", "root", ["b"])], "<b>.dependencies[0]", "must not depend on itself"),
        (
            [ROOT, node("b", "root", ["root", "x"])],
            "<b>.dependencies[1]",
            "depends on x, which is not a task",
        ),
        ([ROOT, node("b", "root", ["root", "root"])], "<b>.dependencies[1]", "depends on root twice"),
        ([ROOT, node("b", "root", [None, "x"])], "<b>.dependencies[1]", "depends on x, which is not a task"),
        (
            [ROOT, node("b", "root", ["c"]), node("c", "root", ["b"])],
            "<b>.dependencies",
            "dependencies form a cycle: b -> c -> b",
        ),
        (
            [node("root", needs=["b"]), node("b", "root", ["root"])],
            "<root>.dependencies",
            "root -> b -> root",
        ),
        ([ROOT, node("b", "x")], "<b>.parent_id", "parent x is not a task of this flow"),
        ([ROOT, node("b", "b")], "<b>.parent_id", "parents form a cycle: b -> b"),
        ([ROOT, node("b", "c"), node("c", "b")], "<b>.parent_id", "parents form a cycle: b -> c -> b"),
        ([node("a", "b"), node("b", "a")], "<a>.parent_id", "parents form a cycle: a -> b -> a"),
        (
            [ROOT, node("b", "root", user_id="ann")],
            "<b>.user_id",
            "owner 'ann' differs from the flow's, None",
        ),
    ],
)
def test_a_broken_rule_is_one_problem_at_its_place(nodes: list[Node], path: str, reason: str) -> None:
    ((where, why),) = [problem for problem in found(*nodes) if "one root" not in problem[1]]

    assert where == path
    assert reason in why


def test_a_second_root_is_refused_and_the_roots_are_named() -> None:
    ((path, reason),) = found(ROOT, node("b"), node("c", "root"), node("d"))

    assert path == "<b>.parent_id"
    assert reason == "a flow has one root, but 3 tasks have no parent: 'root', 'b', 'd'"


def test_each_knot_of_cycles_is_named() -> None:
    cycles = [
        reason
        for _, reason in found(
            ROOT,
            node("a", "root", ["b"]),
            node("b", "root", ["a"]),
            node("c", "root", ["d"]),
            node("d", "root", ["e"]),
            node("e", "root", ["c"]),
            node("waits", "root", ["a", "e"]),
        )
    ]

    assert cycles == [
        "dependencies form a cycle: a -> b -> a",
        "dependencies form a cycle: c -> d -> e -> c",
    ]


def test_tasks_of_equal_names_are_told_apart_by_their_ids_in_a_cycle() -> None:
    twins = [
        Node(TaskId("id-1"), "twin", TaskId("root"), [TaskId("id-2")], None, "[1]"),
        Node(TaskId("id-2"), "twin", TaskId("root"), [TaskId("id-1")], None, "[2]"),
    ]

    ((_, reason),) = found(ROOT, *twins)

    assert reason == "dependencies form a cycle: id-1 -> id-2 -> id-1"


def test_a_long_cycle_is_named_by_its_ends() -> None:
    ring = [node(f"t{number}", "root", [f"t{(number + 1) % 1000}"]) for number in range(1000)]

    ((_, reason),) = found(ROOT, *ring)

    assert reason.startswith("dependencies form a cycle: t0 -> t1 -> ")
    assert "... 981 more ..." in reason
    assert reason.endswith("-> t999 -> t0")


def test_all_problems_of_a_flow_are_reported_at_once() -> None:
    paths = [
        path
        for path, _ in found(
            ROOT,
            node("b", "x", ["b", "y"]),
            node("c", "root", ["d"], user_id="ann"),
            node("d", None, ["c"]),
            node("d", "root"),
        )
    ]

    assert paths == [
        "<d>.id",
        "<b>.dependencies[0]",
        "<b>.dependencies[1]",
        "<c>.dependencies",
        "<d>.parent_id",
        "<b>.parent_id",
        "<c>.user_id",
    ]


def test_a_chain_of_20_000_is_a_normal_flow() -> None:
    size = 20_000
    names = [f"t{number}" for number in range(size)]
    chain = [
        node(name, names[index - 1] if index else None, names[index - 1 : index] if index else [])
        for index, name in enumerate(names)
    ]

    assert flow_problems(chain) == []


def test_a_ring_of_20_000_is_one_problem() -> None:
    size = 20_000
    ring = [node(f"t{number}", "root", [f"t{(number + 1) % size}"]) for number in range(size)]

    assert len(flow_problems([ROOT, *ring])) == 1
