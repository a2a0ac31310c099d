"""Moves on somebody's behalf."""

import pytest

from tests.builders import NOON, MoveTask, a_flow, found_in
from weft.ids import TaskId
from weft.tasks.decisions import Snapshot
from weft.tasks.events import EventType
from weft.tasks.flow import TaskNotFound
from weft.tasks.record import Status
from weft.tasks.states import Cancelled, InvalidTransition, Retried, Started


def test_a_move_changes_the_task_and_is_told_of() -> None:
    flow = a_flow("t", user_id="ann")
    operation = MoveTask(flow.root.id, Cancelled(NOON, "by ann"))

    decision = operation.decide(found_in(flow))

    (event,) = decision.changes.events
    assert operation.needs().tasks == (flow.root.id,)
    assert decision.changes.updated == (decision.value,)
    assert (decision.value.status, decision.value.error) == (Status.CANCELLED, "by ann")
    assert (event.type, event.task_tree_id, event.user_id, event.at) == (
        EventType.TASK_CANCELLED,
        flow.root.id,
        "ann",
        NOON,
    )
    assert event.facts == {"error": "by ann"}


def test_a_move_without_an_error_tells_none() -> None:
    flow = a_flow("t")

    (event,) = MoveTask(flow.root.id, Started(NOON)).decide(found_in(flow)).changes.events

    assert (event.type, event.facts) == (EventType.TASK_STARTED, {})


def test_a_move_the_table_does_not_have_is_refused() -> None:
    flow = a_flow("t")

    with pytest.raises(InvalidTransition):
        MoveTask(flow.root.id, Retried(NOON)).decide(found_in(flow))


def test_a_task_that_is_not_there_cannot_be_moved() -> None:
    with pytest.raises(TaskNotFound):
        MoveTask(TaskId("ffffffff-0000-4000-8000-000000000000"), Started(NOON)).decide(Snapshot())
