"""Whatever a flow looks like: it comes back from its printed forms, and no document is a crash."""

import graphlib
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders import NOON, numbered_ids, outcome_of
from tests.examples import examples
from tests.property.strategies import flows, json_values, texts
from weft.ids import TaskId
from weft.tasks.flow import Flow, find_cycles, nested_json, reachable, reverse
from weft.tasks.parsing.flow_parser import read_flow
from weft.tasks.parsing.problems import InvalidTasks, decode, task_object
from weft.tasks.parsing.rules import flow_problems, node_of
from weft.tasks.record import FIELD_NAMES
from weft.tasks.summary import blocked, summarize

LAX = settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])

nodes = st.sampled_from([TaskId(letter) for letter in "abcdefgh"])
graphs = st.dictionaries(nodes, st.lists(nodes, max_size=3), max_size=8)


def read(document: object) -> Flow:
    return read_flow(document, new_id=numbered_ids("e"), now=NOON)


@LAX
@given(flows())
def test_the_nested_form_gives_the_flow_back(flow: Flow) -> None:
    assert read(decode(nested_json(flow))).by_id == flow.by_id


@LAX
@given(flows(), st.randoms(use_true_random=False))
def test_a_list_gives_the_flow_back_in_any_order(flow: Flow, random: Any) -> None:
    document = [task_object(task) for task in flow]
    random.shuffle(document)

    assert read(decode(msgspec.json.encode(document))).by_id == flow.by_id


@LAX
@given(flows())
def test_a_valid_flow_breaks_no_rule_and_is_walked_whole(flow: Flow) -> None:
    assert flow_problems([node_of(task) for task in flow]) == []
    assert {task.id for task, _ in flow.walk()} == set(flow.subtree(flow.root.id)) == set(flow.by_id)
    assert sum(summarize(flow).counts.values()) == len(flow)


@LAX
@given(flows())
def test_a_blocked_task_is_pending_and_waits_for_one_that_broke_or_is_blocked(flow: Flow) -> None:
    stuck = blocked(flow)
    for task in flow:
        waits_in_vain = any(
            dependency.id in stuck
            or (dependency.required and flow[dependency.id].status.value in {"failed", "cancelled"})
            for dependency in task.dependencies
        )
        assert (task.id in stuck) == (task.status.value == "pending" and waits_in_vain)


@LAX
@given(graphs)
def test_cycles_are_found_exactly_where_no_order_exists(edges: dict[TaskId, list[TaskId]]) -> None:
    known = {node: [target for target in targets if target in edges] for node, targets in edges.items()}
    cycles = find_cycles(edges)

    try:
        graphlib.TopologicalSorter(known).prepare()
        assert cycles == []
    except graphlib.CycleError:
        assert cycles
    for cycle in cycles:
        assert len(set(cycle)) == len(cycle)
        assert all(after in edges[node] for node, after in zip(cycle, (*cycle[1:], cycle[0]), strict=True))
    assert sum(map(len, cycles)) == len({node for cycle in cycles for node in cycle})


@LAX
@given(graphs, st.lists(nodes, max_size=3))
def test_what_is_reachable_is_closed_and_reversing_twice_changes_nothing(
    edges: dict[TaskId, list[TaskId]], starts: list[TaskId]
) -> None:
    found = reachable(starts, edges)

    assert len(found) == len(set(found))
    assert {target for node in found for target in edges.get(node, [])} <= set(found)
    turned = reverse(edges)
    assert all(node in turned[target] for node in edges for target in edges[node] if target in edges)


# Documents near enough to flows that the checks behind the first ones are reached.
loose_ids = st.sampled_from(
    ["aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002", "a", "b", "", "\ud800"]
)
loose_dependencies = st.lists(
    loose_ids
    | json_values
    | st.dictionaries(st.sampled_from(["id", "name", "required"]), loose_ids | json_values),
    max_size=3,
)
loose_tasks = st.fixed_dictionaries(
    {},
    optional={
        "id": loose_ids | json_values,
        "name": st.sampled_from(["a", "b", "c"]) | json_values,
        "parent_id": loose_ids | json_values,
        "user_id": loose_ids | json_values,
        "dependencies": loose_dependencies | json_values,
        "status": st.sampled_from(["pending", "completed", "failed"]) | json_values,
        "created_at": st.sampled_from(["0001-01-01T00:00:00+14:00", "2025-01-15T10:30:00Z"]) | json_values,
        "schemas": st.fixed_dictionaries({"method": texts, "input_schema": json_values}) | json_values,
        "schedule_enabled": st.booleans() | json_values,
        "schedule_type": st.sampled_from(["once", "cron", "daily"]) | json_values,
        "schedule_expression": texts | json_values,
        "params": st.dictionaries(
            st.sampled_from(["timezone", "catchup", "overlap", "input_mappings"]), json_values
        ),
    },
) | st.dictionaries(st.sampled_from(FIELD_NAMES) | texts, json_values, max_size=4)
loose_nodes = st.recursive(
    st.fixed_dictionaries({"task": loose_tasks | json_values}),
    lambda inner: st.fixed_dictionaries(
        {"task": loose_tasks}, optional={"children": st.lists(inner, max_size=3) | json_values}
    ),
    max_leaves=5,
)


@settings(LAX, max_examples=examples(300))
@given(
    json_values | loose_tasks | st.lists(loose_tasks | json_values, max_size=5) | loose_nodes,
    st.none() | texts,
)
def test_any_document_is_a_flow_or_refused_with_its_problems(document: object, user_id: str | None) -> None:
    outcome = outcome_of(
        lambda: read_flow(document, new_id=numbered_ids("e"), now=NOON, user_id=user_id), refusal=InvalidTasks
    )

    if isinstance(outcome, InvalidTasks):
        assert outcome.found
        assert msgspec.json.encode(outcome.problems())
    else:
        assert flow_problems([node_of(task) for task in outcome]) == []
        assert msgspec.json.encode([task_object(task) for task in outcome])


def test_the_loose_documents_are_sometimes_flows() -> None:
    assert len(read([{"name": "a"}, {"name": "b", "dependencies": ["a"]}])) == 2
    with pytest.raises(InvalidTasks):
        read([{"name": "a"}, {"name": "b", "dependencies": ["\ud800"]}])
