"""The nested form of a flow."""

from typing import Any

import pytest

from tests.builders import NOON, a_chain, a_flow, an_unchecked_chain, numbered_ids
from weft.limits import MAX_JSON_DEPTH, MAX_NESTED_DEPTH
from weft.tasks.flow import Flow, nested_json
from weft.tasks.parsing.flow_parser import read_flow
from weft.tasks.parsing.problems import decode, task_object


def read_back(flow: Flow) -> Flow:
    return read_flow(decode(nested_json(flow)), new_id=numbered_ids("e"), now=NOON)


def test_the_nested_form_has_each_task_with_its_children_in_it() -> None:
    flow = a_flow("a", {"name": "b"}, {"name": "c", "parent_id": "b"}, {"name": "d"})
    a, b, c, d = (task_object(task) for task in flow)

    assert decode(nested_json(flow)) == {
        "task": a,
        "children": [
            {"task": b, "children": [{"task": c, "children": []}]},
            {"task": d, "children": []},
        ],
    }


def test_the_nested_form_reads_back_equal() -> None:
    flow = a_flow(
        {"name": "a", "inputs": {"text": 'quote " \\ \x00 \u2028', "n": 2**70, "f": 0.1}},
        {"name": "b", "dependencies": [{"name": "c", "required": False}]},
        {"name": "c", "parent_id": "b"},
        {"name": "d", "parent_id": "c", "user_id": None},
        {"name": "e"},
    )

    assert {task.id: task for task in read_back(flow)} == flow.by_id


def test_a_single_task_has_no_children() -> None:
    assert decode(nested_json(a_flow("a")))["children"] == []


def test_the_text_is_indented_for_people() -> None:
    assert b'\n  "children": []\n}' in nested_json(a_flow("a"))


@pytest.mark.parametrize(("length", "form"), [(MAX_NESTED_DEPTH, dict), (MAX_NESTED_DEPTH + 1, list)])
def test_a_tree_deeper_than_the_limit_is_written_as_a_list(length: int, form: type) -> None:
    flow = a_flow(*a_chain(length, linked_by="parent_id"))

    assert isinstance(decode(nested_json(flow)), form)
    assert read_back(flow).by_id == flow.by_id


def test_the_deepest_inputs_in_the_deepest_nested_tree_are_read_back() -> None:
    deep: Any = 1
    for _ in range(MAX_JSON_DEPTH - 1):
        deep = [deep]
    chain = a_chain(MAX_NESTED_DEPTH, linked_by="parent_id")
    chain[-1]["inputs"] = {"deep": deep}
    flow = a_flow(*chain)

    assert read_back(flow).by_id == flow.by_id


@pytest.mark.parametrize("linked_by", ["parent_id", "dependencies"])
def test_a_flow_of_20_000_tasks_in_a_chain_is_written(linked_by: str) -> None:
    flow = an_unchecked_chain(20_000, linked_by=linked_by)

    assert nested_json(flow).count(b'"name"') == 20_000
