"""Storing a flow that has been read."""

import pytest

from tests.builders import NOON, a_flow, completed, found_in, named
from weft.tasks.decisions import Snapshot
from weft.tasks.events import EventType
from weft.tasks.flow import Flow
from weft.tasks.operations import SubmitFlow
from weft.tasks.parsing.problems import InvalidTasks
from weft.tasks.record import Status, Task, evolve

ENDED = {"status": "completed", "completed_at": "2025-01-15T12:00:00Z"}


def made_from(source: Task, origin: str) -> Flow:
    ended = ENDED if origin in {"link", "archive"} else {}
    return a_flow({"name": "made", "origin_type": origin, "original_task_id": source.id, **ended}, prefix="b")


def test_a_flow_is_added_whole_and_told_of_once() -> None:
    flow = a_flow("a", "b", user_id="ann")

    decision = SubmitFlow(flow, NOON).decide(Snapshot())

    assert decision.value is flow
    assert decision.changes.added == tuple(flow)
    (event,) = decision.changes.events
    assert (event.type, event.task_id, event.user_id) == (EventType.FLOW_CREATED, flow.root.id, "ann")
    assert event.facts == {"tasks": 2, "origin": "create"}


@pytest.mark.parametrize("origin", ["link", "archive"])
def test_a_link_or_an_archive_needs_a_completed_source(origin: str) -> None:
    source = completed(a_flow("source"))
    flow = made_from(source.root, origin)
    operation = SubmitFlow(flow, NOON)

    assert operation.needs().tasks == (source.root.id,)
    assert operation.decide(found_in(source)).changes.recounted == {source.root.id}


@pytest.mark.parametrize("origin", ["link", "archive"])
@pytest.mark.parametrize("status", [status for status in Status if status is not Status.COMPLETED])
def test_a_link_or_an_archive_of_unfinished_work_is_refused(origin: str, status: Status) -> None:
    source = a_flow("source")
    stored = Flow([evolve(source.root, status=status)])

    with pytest.raises(InvalidTasks, match=f"{source.root.id} is {status}") as caught:
        SubmitFlow(made_from(source.root, origin), NOON).decide(found_in(stored))

    assert caught.value.found[0].field == "original_task_id"


@pytest.mark.parametrize("origin", ["link", "archive"])
def test_a_source_that_is_not_there_or_anothers_is_refused(origin: str) -> None:
    source = completed(a_flow("source"))

    with pytest.raises(InvalidTasks, match="does not exist"):
        SubmitFlow(made_from(source.root, origin), NOON).decide(Snapshot())


def test_a_source_may_be_in_the_same_flow() -> None:
    source = "aaaaaaaa-0000-4000-8000-00000000000a"
    flow = a_flow(
        {"name": "source", "id": source, **ENDED},
        {"name": "made", "origin_type": "link", "original_task_id": source, **ENDED},
    )

    assert SubmitFlow(flow, NOON).decide(Snapshot()).changes.recounted == {source}


def test_all_bad_sources_are_reported_at_once() -> None:
    source = a_flow("source").root.id
    made = {"origin_type": "link", "original_task_id": source, **ENDED}
    flow = a_flow({"name": "a", **made}, {"name": "b", **made}, prefix="b")

    with pytest.raises(InvalidTasks) as caught:
        SubmitFlow(flow, NOON).decide(Snapshot())

    assert [problem.path for problem in caught.value.found] == [named(flow, "a").id, named(flow, "b").id]


@pytest.mark.parametrize("origin", ["copy", "create"])
def test_a_task_that_is_not_found_is_not_counted_as_a_source(origin: str) -> None:
    anothers = a_flow("anothers").root

    changes = SubmitFlow(made_from(anothers, origin), NOON).decide(Snapshot()).changes

    assert changes.recounted == frozenset()
