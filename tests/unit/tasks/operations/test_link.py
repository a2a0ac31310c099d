"""Links: new records that carry their sources' results."""

import pytest

from tests.builders import NOON, a_flow, completed, found_in, named, numbered_ids, with_task
from weft.tasks.flow import Flow
from weft.tasks.operations import LinkTasks
from weft.tasks.operations.copy import SourceNotCompleted
from weft.tasks.parsing.rules import consistency_problems
from weft.tasks.record import Origin, Status, evolve


def link_of(flow: Flow, name: str, prefix: str = "b") -> Flow:
    operation = LinkTasks(task_id=named(flow, name).id, new_id=numbered_ids(prefix), now=NOON)
    assert operation.needs().flows_of == (named(flow, name).id,)
    return operation.decide(found_in(flow)).value


@pytest.fixture
def flow() -> Flow:
    return completed(a_flow("root", "a", {"name": "b", "parent_id": "a", "dependencies": ["a", "c"]}, "c"))


def test_a_link_carries_the_results_of_its_sources(flow: Flow) -> None:
    link = link_of(flow, "root")

    assert not link.by_id.keys() & flow.by_id.keys()
    for task in link:
        assert (task.origin_type, task.original_task_id) == (Origin.LINK, named(flow, task.name).id)
        assert (task.status, task.result, task.progress) == (Status.COMPLETED, {"made_by": task.name}, 1.0)
        assert task.completed_at == NOON
        assert consistency_problems(task) == []
    assert [link[d.id].name for d in named(link, "b").dependencies] == ["a", "c"]


def test_dependencies_outside_the_linked_part_fall_away(flow: Flow) -> None:
    link = link_of(flow, "a")

    assert sorted(task.name for task in link) == ["a", "b"]
    assert [link[d.id].name for d in named(link, "b").dependencies] == ["a"]


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.COMPLETED])
def test_every_linked_task_must_be_completed(flow: Flow, status: Status) -> None:
    unfinished = with_task(flow, evolve(named(flow, "b"), status=status))

    with pytest.raises(SourceNotCompleted, match=f"only completed tasks can be linked: b .* is {status}"):
        link_of(unfinished, "a")
    assert len(link_of(unfinished, "c")) == 1


def test_a_link_of_a_link_points_at_the_first_source(flow: Flow) -> None:
    first = link_of(flow, "c")
    second = link_of(first, "c", "d")
    third = link_of(second, "c", "e")

    assert {link.root.original_task_id for link in (first, second, third)} == {named(flow, "c").id}


def test_a_link_of_a_link_recounts_the_first_source(flow: Flow) -> None:
    link = link_of(flow, "c")
    operation = LinkTasks(task_id=link.root.id, new_id=numbered_ids("d"), now=NOON)

    assert operation.decide(found_in(link)).changes.recounted == {named(flow, "c").id}


def test_a_link_of_an_archive_points_at_the_archive(flow: Flow) -> None:
    archived = Flow([evolve(flow.root, origin_type=Origin.ARCHIVE, original_task_id=numbered_ids("e")())])

    link = link_of(archived, "root")

    assert link.root.original_task_id == archived.root.id
    assert not link.root.is_frozen


def test_a_link_stays_sound_when_what_its_inputs_came_from_falls_away(flow: Flow) -> None:
    b, c = named(flow, "b"), named(flow, "c").id
    mapped = with_task(flow, evolve(b, params={"input_mappings": {"x": f"{c}.made_by"}}))

    assert consistency_problems(named(link_of(mapped, "a"), "b")) == []


def test_a_link_does_not_fire() -> None:
    scheduled = {"schedule_enabled": True, "schedule_type": "daily", "schedule_expression": "09:00"}
    link = link_of(completed(a_flow({"name": "t", **scheduled})), "t")

    assert (link.root.schedule_enabled, link.root.next_run_at) == (False, None)


def test_many_unfinished_tasks_are_named_in_short() -> None:
    flow = a_flow(*(f"t{number}" for number in range(9)))

    with pytest.raises(SourceNotCompleted, match=r"t4 \S+ is pending and 4 more$") as caught:
        link_of(flow, "t0")

    assert len(caught.value.tasks) == 9
