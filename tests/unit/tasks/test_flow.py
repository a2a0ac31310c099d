"""A flow in memory and its look-ups."""

import pytest

from tests.builders import a_chain, a_flow, named, numbered_ids
from weft.errors import EXIT_NOT_FOUND
from weft.tasks.flow import Flow, TaskNotFound


@pytest.fixture
def flow() -> Flow:
    return a_flow(
        "root",
        {"name": "b", "dependencies": ["c"]},
        {"name": "c", "parent_id": "b"},
        {"name": "d", "parent_id": "b", "dependencies": ["c", "b"]},
        "e",
    )


def names(flow: Flow, ids: object) -> list[str]:
    return [flow[task_id].name for task_id in ids]  # type: ignore[attr-defined]


def test_a_flow_keeps_its_tasks_in_order(flow: Flow) -> None:
    assert [task.name for task in flow] == ["root", "b", "c", "d", "e"]
    assert len(flow) == 5
    assert flow.root.name == "root"


def test_a_task_is_found_by_its_id_and_a_missing_one_is_an_error(flow: Flow) -> None:
    missing = numbered_ids("f")()

    assert flow[flow.root.id] is flow.root
    assert flow.root.id in flow
    assert missing not in flow
    with pytest.raises(TaskNotFound, match=missing) as caught:
        flow[missing]
    assert (caught.value.task_id, caught.value.exit_code) == (missing, EXIT_NOT_FOUND)


def test_children_dependencies_and_dependents_are_looked_up_by_id(flow: Flow) -> None:
    b, c, d = (named(flow, name).id for name in "bcd")

    assert {flow[task_id].name: names(flow, ids) for task_id, ids in flow.children.items()} == {
        "root": ["b", "e"],
        "b": ["c", "d"],
    }
    assert flow.dependencies[d] == [c, b]
    assert flow.dependents == {c: [b, d], b: [d]}


def test_a_subtree_is_the_task_and_all_below_it_parents_first(flow: Flow) -> None:
    assert names(flow, flow.subtree(named(flow, "b").id)) == ["b", "c", "d"]
    assert names(flow, flow.subtree(named(flow, "e").id)) == ["e"]
    assert names(flow, flow.subtree(flow.root.id)) == ["root", "b", "e", "c", "d"]


def test_a_walk_goes_down_before_it_goes_on_and_tells_the_depth(flow: Flow) -> None:
    assert [(task.name, depth) for task, depth in flow.walk()] == [
        ("root", 0),
        ("b", 1),
        ("c", 2),
        ("d", 2),
        ("e", 1),
    ]


def test_a_tree_of_20_000_levels_is_walked() -> None:
    flow = a_flow(*a_chain(20_000, linked_by="parent_id"))

    assert max(depth for _, depth in flow.walk()) == 19_999
    assert len(flow.subtree(flow.root.id)) == 20_000
