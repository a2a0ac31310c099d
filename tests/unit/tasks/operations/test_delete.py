"""Deletion of tasks that nobody has started and nobody needs."""

import pytest

from tests.builders import NOON, a_flow, found_in, in_status, named, with_task
from weft.ids import TaskId
from weft.tasks.decisions import Snapshot, WriteSet
from weft.tasks.events import EventType
from weft.tasks.flow import Flow, TaskNotFound
from weft.tasks.operations import DeleteTasks
from weft.tasks.operations.lifecycle import CannotDelete
from weft.tasks.record import Status, evolve

SOURCE = TaskId("dddddddd-0000-4000-8000-000000000001")


@pytest.fixture
def flow() -> Flow:
    return a_flow(
        "root",
        {"name": "b"},
        {"name": "c", "parent_id": "b"},
        {"name": "d", "parent_id": "b", "dependencies": ["c"]},
        {"name": "e", "dependencies": ["d"]},
        user_id="ann",
    )


def delete(*flows: Flow, names: str, with_children: bool = False) -> WriteSet:
    ids = tuple(
        named(flow, name).id for name in names.split() for flow in flows if name in {t.name for t in flow}
    )
    operation = DeleteTasks(task_ids=ids, with_children=with_children, now=NOON)
    assert operation.needs().flows_of == ids
    decision = operation.decide(found_in(*flows))
    assert decision.value == decision.changes.deleted
    return decision.changes


def refusals(flow: Flow, names: str, *, with_children: bool = False) -> list[tuple[str, str]]:
    with pytest.raises(CannotDelete) as caught:
        delete(flow, names=names, with_children=with_children)
    assert len(caught.value.problems()) == len(caught.value.found)
    return [(flow[TaskId(problem.path)].name, problem.field) for problem in caught.value.found]


def test_a_pending_leaf_that_nothing_needs_is_deleted(flow: Flow) -> None:
    changes = delete(flow, names="e")

    (event,) = changes.events
    assert changes.deleted == (named(flow, "e").id,)
    assert (event.type, event.task_tree_id, event.user_id, event.facts) == (
        EventType.TASK_DELETED,
        flow.root.id,
        "ann",
        {"name": "e"},
    )
    assert (changes.added, changes.updated, changes.recounted) == ((), (), frozenset())


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PENDING])
def test_only_a_pending_task_is_deleted(flow: Flow, status: Status) -> None:
    begun = with_task(flow, evolve(named(flow, "e"), status=in_status(status).status))

    assert refusals(begun, "e") == [("e", "status")]


def test_a_task_with_children_is_kept_unless_they_go_too(flow: Flow) -> None:
    assert refusals(flow, "e d b") == [("b", "has_children")]
    assert len(delete(flow, names="e b", with_children=True).deleted) == 4
    assert len(delete(flow, names="b c d e").deleted) == 4


def test_a_task_that_others_need_is_kept_unless_they_go_too(flow: Flow) -> None:
    assert refusals(flow, "d") == [("d", "dependencies")]
    assert refusals(flow, "b", with_children=True) == [("d", "dependencies")]
    assert len(delete(flow, names="d e").deleted) == 2


def test_an_optional_dependent_keeps_a_task_too() -> None:
    flow = a_flow("root", "a", {"name": "b", "dependencies": [{"name": "a", "required": False}]})

    assert refusals(flow, "a") == [("a", "dependencies")]


def test_a_task_that_others_were_made_from_is_kept(flow: Flow) -> None:
    referenced = with_task(flow, evolve(named(flow, "e"), has_references=True))

    assert refusals(referenced, "e") == [("e", "has_references")]


def test_a_child_that_must_stay_keeps_the_whole_tree(flow: Flow) -> None:
    begun = with_task(flow, evolve(named(flow, "c"), status=Status.IN_PROGRESS))

    assert refusals(begun, "root", with_children=True) == [("c", "status")]


def test_all_reasons_are_given_at_once(flow: Flow) -> None:
    busy = with_task(flow, evolve(named(flow, "d"), status=Status.FAILED, has_references=True))

    assert refusals(busy, "d root") == [
        ("d", "status"),
        ("d", "dependencies"),
        ("d", "has_references"),
        ("root", "has_children"),
    ]


def test_the_message_names_the_task_and_counts_the_rest(flow: Flow) -> None:
    with pytest.raises(CannotDelete, match=r"^d .* is needed by 1 other tasks: e \(and 1 more\)$"):
        delete(flow, names="d b")


def test_a_parent_that_loses_its_last_child_has_none(flow: Flow) -> None:
    assert delete(flow, names="e").updated == ()
    (parent,) = delete(flow, names="c d e").updated
    assert (parent.name, parent.has_children, parent.updated_at) == ("b", False, NOON)


def test_a_whole_flow_is_deleted_with_its_root(flow: Flow) -> None:
    changes = delete(flow, names="root", with_children=True)

    assert set(changes.deleted) == set(flow.by_id)
    assert changes.updated == ()


def test_tasks_of_several_flows_are_deleted_together(flow: Flow) -> None:
    other = a_flow("other", "leaf", prefix="b")

    changes = delete(flow, other, names="e leaf")

    assert len(changes.deleted) == 2
    assert [task.name for task in changes.updated] == ["other"]
    assert {event.task_tree_id for event in changes.events} == {flow.root.id, other.root.id}


def test_a_task_named_twice_is_deleted_once(flow: Flow) -> None:
    assert len(delete(flow, names="e e").deleted) == 1


def test_the_source_of_a_deleted_copy_is_recounted(flow: Flow) -> None:
    made = with_task(flow, evolve(named(flow, "e"), original_task_id=SOURCE))

    assert delete(made, names="e").recounted == {SOURCE}


def test_a_source_that_goes_too_is_not_recounted() -> None:
    flow = a_flow("root", "a", "b")
    made = with_task(flow, evolve(named(flow, "b"), original_task_id=named(flow, "a").id))

    assert delete(made, names="a b").recounted == frozenset()


def test_a_task_that_is_not_there_cannot_be_deleted() -> None:
    with pytest.raises(TaskNotFound):
        DeleteTasks(task_ids=(SOURCE,), now=NOON).decide(Snapshot())
