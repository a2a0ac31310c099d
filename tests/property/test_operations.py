"""Whatever the tree: copies, links, archives and mixed copies keep its shape and their promises."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.builders import NOON, found_in, numbered_ids, outcome_of
from tests.examples import examples
from tests.property.strategies import flows, json_objects
from weft.ids import TaskId
from weft.tasks.decisions import Operation
from weft.tasks.flow import Flow
from weft.tasks.operations import (
    ArchiveTasks,
    CopyTasks,
    DeleteTasks,
    LinkTasks,
    OutsideDependencies,
    UpdateTask,
)
from weft.tasks.operations.copy import SourceNotCompleted
from weft.tasks.operations.lifecycle import CannotDelete
from weft.tasks.parsing.problems import InvalidTasks
from weft.tasks.parsing.rules import consistency_problems, flow_problems, node_of
from weft.tasks.record import Origin, Status, Task

LAX = settings(deadline=None, max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow])

completed_flows = flows(statuses=st.just(Status.COMPLETED))


def any_task(flow: Flow, data: st.DataObject) -> TaskId:
    return data.draw(st.sampled_from(sorted(flow.by_id)))


def check_derived(source: Flow, top: TaskId, operation: Operation[Flow]) -> dict[TaskId, Task]:
    """Check what holds of every derived flow, and map each source's id to the task derived from it."""
    before = list(source)
    decision = operation.decide(found_in(source))
    derived = decision.value

    assert list(source) == before
    assert decision.changes.added == tuple(derived)
    assert (decision.changes.updated, decision.changes.deleted) == ((), ())
    assert not derived.by_id.keys() & source.by_id.keys()
    assert flow_problems([node_of(task) for task in derived]) == []
    new_ids = dict(zip(_sources(source, derived), derived.by_id, strict=True))
    assert len(new_ids) == len(derived)
    assert derived.root.id == new_ids[top]
    assert decision.changes.recounted == {task.original_task_id for task in derived}
    for old, new in new_ids.items():
        _check_task(source[old], derived[new], new_ids, derived)
    return {old: derived[new] for old, new in new_ids.items()}


def _sources(source: Flow, derived: Flow) -> list[TaskId]:
    """Return the ids of the source tasks, in the order of the derived ones: their names are unique."""
    by_name = {task.name: task.id for task in source}
    return [by_name[task.name] for task in derived]


def _check_task(old: Task, new: Task, new_ids: dict[TaskId, TaskId], derived: Flow) -> None:
    assert consistency_problems(new) == []
    assert (new.name, new.inputs, new.priority, new.user_id) == (
        old.name,
        old.inputs,
        old.priority,
        old.user_id,
    )
    assert (new.created_at, new.updated_at, new.has_references) == (NOON, NOON, False)
    assert (new.task_tree_id, new.has_children) == (derived.root.id, new.id in derived.children)
    expected = [(new_ids[d.id], d.required) for d in old.dependencies if d.id in new_ids]
    assert [(d.id, d.required) for d in new.dependencies] == expected
    if new is not derived.root:
        assert new.parent_id == new_ids.get(old.parent_id or TaskId(""), derived.root.id)
    assert old.params is not None
    assert new.params is not None
    mapped = {new_ids.get(TaskId(path[:36]), path[:36]) for path in old.params["input_mappings"].values()}
    assert {path[:36] for path in new.params["input_mappings"].values()} == mapped


@LAX
@given(flows(), st.data())
def test_a_copy_has_the_shape_of_its_source_and_nothing_of_its_outcome(
    flow: Flow, data: st.DataObject
) -> None:
    top = any_task(flow, data)
    with_dependencies = data.draw(st.booleans())
    operation = CopyTasks(
        task_id=top, with_dependencies=with_dependencies, new_id=numbered_ids("b"), now=NOON
    )
    made = outcome_of(lambda: check_derived(flow, top, operation), refusal=OutsideDependencies)
    if isinstance(made, OutsideDependencies):
        assert not with_dependencies
        assert not {task.id for task in made.tasks} & set(flow.subtree(top))
        return
    assert set(flow.subtree(top)) <= set(made)
    assert all(dependency in made for old in made for dependency in flow.dependencies[old])
    for task in made.values():
        assert (task.status, task.origin_type) == (Status.PENDING, Origin.COPY)
        assert (task.result, task.error, task.progress) == (None, None, 0.0)


def check_finished(
    flow: Flow, data: st.DataObject, make: Callable[[TaskId], Operation[Flow]], origin: Origin
) -> None:
    top = any_task(flow, data)
    made = check_derived(flow, top, make(top))
    assert set(made) == set(flow.subtree(top))
    for old, task in made.items():
        source = flow[old]
        assert (task.origin_type, task.original_task_id) == (origin, old)
        assert (task.status, task.result, task.progress) == (Status.COMPLETED, source.result, 1.0)
        assert (task.started_at, task.completed_at) == (source.started_at, source.completed_at)
        assert task.is_frozen == (origin is Origin.ARCHIVE)


@LAX
@given(completed_flows, st.data())
def test_a_link_has_the_shape_and_the_results_of_its_source(flow: Flow, data: st.DataObject) -> None:
    check_finished(
        flow, data, lambda top: LinkTasks(task_id=top, new_id=numbered_ids("b"), now=NOON), Origin.LINK
    )


@LAX
@given(completed_flows, st.data())
def test_an_archive_has_the_shape_and_the_results_of_its_source(flow: Flow, data: st.DataObject) -> None:
    check_finished(
        flow, data, lambda top: ArchiveTasks(task_id=top, new_id=numbered_ids("b"), now=NOON), Origin.ARCHIVE
    )


@LAX
@given(flows(), st.data(), st.sampled_from([LinkTasks, ArchiveTasks]))
def test_unfinished_work_is_neither_linked_nor_archived(
    flow: Flow, data: st.DataObject, operation: type[LinkTasks] | type[ArchiveTasks]
) -> None:
    top = any_task(flow, data)
    unfinished = [task_id for task_id in flow.subtree(top) if flow[task_id].status is not Status.COMPLETED]
    assume(unfinished)

    with pytest.raises(SourceNotCompleted) as caught:
        operation(task_id=top, new_id=numbered_ids("b"), now=NOON).decide(found_in(flow))

    assert [task.id for task in caught.value.tasks] == unfinished


@LAX
@given(
    flows(statuses=st.sampled_from([Status.COMPLETED, Status.COMPLETED, Status.PENDING, Status.FAILED])),
    st.data(),
)
def test_a_mixed_copy_links_the_named_and_copies_the_others(flow: Flow, data: st.DataObject) -> None:
    finished = [task.id for task in flow if task.status is Status.COMPLETED]
    assume(finished)
    linked = data.draw(st.frozensets(st.sampled_from(finished), min_size=1))
    operation = CopyTasks(
        task_id=flow.root.id, linked=linked, with_dependencies=True, new_id=numbered_ids("b"), now=NOON
    )

    made = check_derived(flow, flow.root.id, operation)

    assert set(made) == set(flow.by_id)
    for old, task in made.items():
        source = flow[old]
        assert task.origin_type is (Origin.LINK if old in linked else Origin.COPY)
        assert task.result == (source.result if old in linked else None)
        assert task.status is (Status.COMPLETED if old in linked else Status.PENDING)


@LAX
@given(flows(statuses=st.sampled_from([Status.PENDING] * 4 + [Status.COMPLETED])), st.data())
def test_what_a_deletion_leaves_is_a_sound_flow(flow: Flow, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(sorted(flow.by_id)), min_size=1, unique=True))
    operation = DeleteTasks(task_ids=tuple(chosen), with_children=data.draw(st.booleans()), now=NOON)
    decision = outcome_of(lambda: operation.decide(found_in(flow)), refusal=CannotDelete)
    if isinstance(decision, CannotDelete):
        assert decision.found
        return
    changes = decision.changes
    gone = set(changes.deleted)
    left = {task.id: task for task in flow if task.id not in gone} | {
        task.id: task for task in changes.updated
    }
    assert set(chosen) <= gone
    assert all(flow[task_id].status is Status.PENDING for task_id in gone)
    assert flow_problems([node_of(task) for task in left.values()]) == []
    remaining = Flow(left.values())
    assert all(task.has_children == (task.id in remaining.children) for task in remaining)


@LAX
@given(flows(), st.data(), st.lists(st.integers(0, 11), max_size=3, unique=True), json_objects)
def test_an_update_leaves_a_sound_flow_or_changes_nothing(
    flow: Flow, data: st.DataObject, targets: list[int], inputs: dict[str, object]
) -> None:
    task_id = any_task(flow, data)
    ids = list(flow.by_id)
    wanted = [{"id": ids[target % len(ids)]} for target in targets]
    before = list(flow)
    operation = UpdateTask(task_id=task_id, fields={"dependencies": wanted, "inputs": inputs}, now=NOON)
    decision = outcome_of(lambda: operation.decide(found_in(flow)), refusal=InvalidTasks)

    if isinstance(decision, InvalidTasks):
        assert decision.found
    else:
        changed = decision.value
        assert flow[task_id].status is Status.PENDING
        assert (changed.inputs, consistency_problems(changed)) == (inputs, [])
        nodes = [node_of(changed if task.id == task_id else task) for task in flow]
        assert flow_problems(nodes) == []
    assert list(flow) == before
