"""Copies, whole and mixed."""

from typing import Any

import pytest

from tests.builders import (
    NOON,
    a_flow,
    an_unchecked_chain,
    completed,
    found_in,
    named,
    numbered_ids,
    with_task,
)
from weft.ids import TaskId
from weft.tasks.decisions import Snapshot
from weft.tasks.events import EventType
from weft.tasks.flow import Flow, TaskNotFound
from weft.tasks.operations import CopyTasks, OutsideDependencies
from weft.tasks.operations.copy import NotInCopy, SourceNotCompleted
from weft.tasks.parsing.problems import InvalidTasks
from weft.tasks.record import Origin, Status, evolve


def copy_of(flow: Flow, name: str, *, with_dependencies: bool = False) -> Flow:
    operation = CopyTasks(
        task_id=named(flow, name).id, with_dependencies=with_dependencies, new_id=numbered_ids("b"), now=NOON
    )
    return operation.decide(found_in(flow)).value


def mixed(flow: Flow, name: str, *linked: str, with_dependencies: bool = False) -> Flow:
    operation = CopyTasks(
        task_id=named(flow, name).id,
        linked=frozenset(named(flow, one).id for one in linked),
        with_dependencies=with_dependencies,
        new_id=numbered_ids("b"),
        now=NOON,
    )
    return operation.decide(found_in(flow)).value


def dependencies(flow: Flow, name: str) -> list[str]:
    return [flow[dependency.id].name for dependency in named(flow, name).dependencies]


def parent(flow: Flow, name: str) -> str | None:
    above = named(flow, name).parent_id
    return None if above is None else flow[above].name


@pytest.fixture
def flow() -> Flow:
    """Two branches; what is under `left` needs `shared`, which is under `right`."""
    return a_flow(
        {"name": "root"},
        {"name": "left"},
        {"name": "l1", "parent_id": "left", "dependencies": ["shared"]},
        {"name": "l2", "parent_id": "left", "dependencies": ["shared", {"name": "l1", "required": False}]},
        {"name": "right"},
        {"name": "shared", "parent_id": "right", "dependencies": ["base"]},
        {"name": "base"},
        user_id="ann",
    )


def test_a_copy_is_a_new_pending_flow_without_results(flow: Flow) -> None:
    copy = copy_of(completed(flow), "root")

    assert len(copy) == len(flow)
    assert not copy.by_id.keys() & flow.by_id.keys()
    for task in copy:
        source = named(flow, task.name)
        assert (task.status, task.origin_type, task.original_task_id) == (
            Status.PENDING,
            Origin.COPY,
            source.id,
        )
        assert (task.result, task.error, task.progress) == (None, None, 0.0)
        assert (task.started_at, task.completed_at) == (None, None)
        assert (task.created_at, task.updated_at) == (NOON, NOON)
        assert (task.user_id, task.task_tree_id) == ("ann", copy.root.id)
        assert task.has_children == source.has_children


def test_a_copy_keeps_the_definition() -> None:
    fields: dict[str, Any] = {
        "priority": 0,
        "inputs": {"a": [1]},
        "schemas": {"method": "m"},
        "params": {"retries": 3},
    }

    task = copy_of(a_flow({"name": "t", **fields}), "t").root

    assert {name: getattr(task, name) for name in fields} == fields


def test_dependencies_and_parents_of_a_copy_are_those_among_the_copies(flow: Flow) -> None:
    copy = copy_of(flow, "root")

    assert {task.name: dependencies(copy, task.name) for task in copy} == {
        task.name: dependencies(flow, task.name) for task in flow
    }
    assert {task.name: parent(copy, task.name) for task in copy} == {
        task.name: parent(flow, task.name) for task in flow
    }
    assert [dependency.required for dependency in named(copy, "l2").dependencies] == [True, False]


def test_a_part_of_a_tree_is_copied_with_the_named_task_as_root() -> None:
    flow = a_flow("root", {"name": "b", "has_children": True}, {"name": "c", "parent_id": "b"}, "d")

    copy = copy_of(flow, "b")

    assert {task.name: parent(copy, task.name) for task in copy} == {"b": None, "c": "b"}


def test_a_dependency_outside_the_copy_is_refused_and_named(flow: Flow) -> None:
    with pytest.raises(OutsideDependencies, match="--with-dependencies") as caught:
        copy_of(flow, "left")

    assert [task.name for task in caught.value.tasks] == ["shared", "base"]


def test_on_request_outside_dependencies_are_taken_along_each_once(flow: Flow) -> None:
    copy = copy_of(flow, "left", with_dependencies=True)

    assert sorted(task.name for task in copy) == ["base", "l1", "l2", "left", "shared"]
    assert dependencies(copy, "l1") == ["shared"]
    assert dependencies(copy, "l2") == ["shared", "l1"]
    assert dependencies(copy, "shared") == ["base"]
    assert {task.name: parent(copy, task.name) for task in copy} == {
        "left": None,
        "l1": "left",
        "l2": "left",
        "shared": "left",
        "base": "left",
    }


def test_a_task_that_depends_on_its_own_ancestors_takes_them_along_below_itself() -> None:
    flow = a_flow(
        "root", {"name": "mid"}, {"name": "leaf", "parent_id": "mid", "dependencies": ["mid", "root"]}
    )

    copy = copy_of(flow, "leaf", with_dependencies=True)

    assert {task.name: parent(copy, task.name) for task in copy} == {
        "leaf": None,
        "mid": "root",
        "root": "leaf",
    }
    assert {task.name: task.has_children for task in copy} == {"leaf": True, "mid": False, "root": True}


def test_input_mappings_point_at_the_copies() -> None:
    flow = a_flow({"name": "root", "dependencies": ["a"]}, "a")
    source = named(flow, "a").id
    mappings = {"x": f"{source}.path.to", "y": source.upper()}
    flow = with_task(flow, evolve(flow.root, params={"input_mappings": mappings, "other": source}))

    copy = copy_of(flow, "root")

    new = named(copy, "a").id
    assert copy.root.params == {
        "input_mappings": {"x": f"{new}.path.to", "y": new},
        "other": source,
    }
    assert flow.root.params is not None
    assert flow.root.params["input_mappings"] == mappings


def test_a_copy_whose_mapping_leads_nowhere_is_refused() -> None:
    flow = a_flow("root", {"name": "a", "params": {"input_mappings": {}}})
    linked = evolve(named(flow, "a"), params={"input_mappings": {"x": f"{flow.root.id}.v"}})

    with pytest.raises(InvalidTasks, match="does not start with the id of a dependency"):
        copy_of(with_task(flow, linked), "a")


@pytest.mark.parametrize("params", [None, {}, {"input_mappings": None}, {"p": "all"}])
def test_params_without_mappings_are_kept_as_they_are(params: dict[str, Any] | None) -> None:
    assert copy_of(a_flow({"name": "t", "params": params}), "t").root.params == params


def test_the_schedule_of_a_copy_is_kept_but_off() -> None:
    flow = a_flow(
        {
            "name": "t",
            "schedule_enabled": True,
            "schedule_type": "daily",
            "schedule_expression": "09:00",
            "max_runs": 3,
            "run_count": 2,
            "last_run_at": "2025-01-14T09:00:00Z",
        }
    )

    task = copy_of(flow, "t").root

    assert flow.root.next_run_at is not None
    assert (task.schedule_enabled, task.next_run_at, task.last_run_at, task.run_count) == (
        False,
        None,
        None,
        0,
    )
    assert (task.schedule_type, task.schedule_expression, task.max_runs) == ("daily", "09:00", 3)


def test_a_copy_of_a_copy_names_the_copy_as_its_source(flow: Flow) -> None:
    first = copy_of(flow, "base")
    again = CopyTasks(task_id=first.root.id, new_id=numbered_ids("d"), now=NOON).decide(found_in(first)).value

    assert again.root.original_task_id == first.root.id


def test_a_copy_tells_its_source_and_recounts_its_sources(flow: Flow) -> None:
    task_id = named(flow, "left").id
    operation = CopyTasks(task_id=task_id, with_dependencies=True, new_id=numbered_ids("b"), now=NOON)

    changes = operation.decide(found_in(flow)).changes

    created, told = changes.events
    assert operation.needs().flows_of == (task_id,)
    assert changes.recounted == {named(flow, name).id for name in ("left", "l1", "l2", "shared", "base")}
    assert (created.type, created.facts["source"], created.facts["tasks"]) == (
        EventType.FLOW_CREATED,
        task_id,
        5,
    )
    assert (told.type, told.task_id, told.task_tree_id) == (EventType.TASK_REFERENCED, task_id, flow.root.id)
    assert (changes.updated, changes.deleted) == ((), ())


def test_a_task_that_is_not_there_cannot_be_copied() -> None:
    missing = TaskId("ffffffff-0000-4000-8000-000000000000")

    with pytest.raises(TaskNotFound):
        CopyTasks(task_id=missing, new_id=numbered_ids("b"), now=NOON).decide(Snapshot())


@pytest.mark.parametrize("linked_by", ["parent_id", "dependencies"])
def test_a_chain_of_20_000_tasks_is_copied(linked_by: str) -> None:
    flow = an_unchecked_chain(20_000, linked_by=linked_by)
    operation = CopyTasks(task_id=flow.root.id, new_id=numbered_ids("b"), now=NOON)

    assert len(operation.decide(Snapshot(flows={flow.root.id: flow})).value) == 20_000


def test_a_mixed_copy_links_only_the_named_tasks(flow: Flow) -> None:
    flow = completed(flow)

    copy = mixed(flow, "root", "shared", "right")

    assert {task.name for task in copy if task.origin_type is Origin.LINK} == {"shared", "right"}
    for task in copy:
        is_linked = task.name in {"shared", "right"}
        assert task.status is (Status.COMPLETED if is_linked else Status.PENDING)
        assert task.result == ({"made_by": task.name} if is_linked else None)
        assert task.original_task_id == named(flow, task.name).id
    assert dependencies(copy, "shared") == ["base"]


def test_what_a_linked_task_needed_need_not_come_along(flow: Flow) -> None:
    copy = mixed(completed(flow), "left", "shared", with_dependencies=True)

    assert sorted(task.name for task in copy) == ["l1", "l2", "left", "shared"]
    assert dependencies(copy, "shared") == []


def test_only_completed_tasks_are_linked_in_a_mixed_copy(flow: Flow) -> None:
    partly = with_task(completed(flow), named(flow, "l1"))

    with pytest.raises(SourceNotCompleted, match=r"l1 .* is pending") as caught:
        mixed(partly, "root", "l1", "l2")

    assert [task.name for task in caught.value.tasks] == ["l1"]


def test_what_is_not_copied_cannot_be_linked(flow: Flow) -> None:
    with pytest.raises(NotInCopy) as caught:
        mixed(completed(flow), "right", "base", "l1", with_dependencies=True)

    assert caught.value.task_ids == (named(flow, "l1").id,)


def test_an_archive_can_be_copied_to_work_with_it() -> None:
    flow = completed(a_flow("t"))
    archived = with_task(
        flow, evolve(flow.root, origin_type=Origin.ARCHIVE, original_task_id=numbered_ids("d")())
    )

    assert not copy_of(archived, "t").root.is_frozen
