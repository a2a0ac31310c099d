"""The state machine: every status with every move."""

import math
from datetime import timedelta

import pytest

from tests.batches import batched
from tests.builders import NOON, in_status
from weft.ids import TaskId
from weft.tasks.parsing.rules import consistency_problems
from weft.tasks.record import Origin, Status, Task, evolve
from weft.tasks.states import (
    Cancelled,
    Completed,
    Failed,
    FrozenTask,
    InvalidTransition,
    Move,
    Retried,
    Started,
    error_text,
    fraction,
    transition,
)

LATER = NOON + timedelta(hours=1)
SOURCE = TaskId("bbbbbbbb-0000-4000-8000-000000000001")
MOVES: list[Move] = [
    Started(LATER),
    Completed(LATER, {"value": 2}),
    Failed(LATER, "broke"),
    Cancelled(LATER),
    Retried(LATER),
]
# DESIGN.md, decision 26.
ALLOWED: dict[tuple[Status, str], Status] = {
    (Status.PENDING, "started"): Status.IN_PROGRESS,
    (Status.PENDING, "cancelled"): Status.CANCELLED,
    (Status.IN_PROGRESS, "completed"): Status.COMPLETED,
    (Status.IN_PROGRESS, "failed"): Status.FAILED,
    (Status.IN_PROGRESS, "cancelled"): Status.CANCELLED,
    (Status.FAILED, "retried"): Status.PENDING,
}
every_pair = batched(
    ("status", "move"),
    [(status, move) for status in Status for move in MOVES],
    ids=lambda value: value if isinstance(value, str) else value.verb,
)


@every_pair
def test_the_table_says_which_moves_a_status_allows(status: Status, move: Move) -> None:
    task = in_status(status)
    target = ALLOWED.get((status, move.verb))

    if target is None:
        with pytest.raises(InvalidTransition, match=f"is {status} and cannot be {move.verb}: ") as caught:
            transition(task, move)
        assert (caught.value.task_id, caught.value.status, caught.value.move) == (task.id, status, move.verb)
        return
    moved = transition(task, move)
    assert moved.status is target
    assert moved.updated_at == LATER
    assert consistency_problems(moved) == []


@every_pair
def test_an_archived_task_moves_nowhere(status: Status, move: Move) -> None:
    task = in_status(status, origin_type=Origin.ARCHIVE, original_task_id=SOURCE)

    with pytest.raises(FrozenTask, match="is archived and cannot change"):
        transition(task, move)


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.verb)
def test_a_linked_task_is_completed_and_stays_so(move: Move) -> None:
    task = in_status(Status.COMPLETED, origin_type=Origin.LINK, original_task_id=SOURCE)

    with pytest.raises(InvalidTransition):
        transition(task, move)


def changed_fields(before: Task, after: Task) -> dict[str, object]:
    return {
        name: getattr(after, name)
        for name in before.__struct_fields__
        if getattr(before, name) != getattr(after, name)
    }


@pytest.mark.parametrize(
    ("status", "move", "changes"),
    [
        (Status.PENDING, Started(LATER), {"status": Status.IN_PROGRESS, "started_at": LATER}),
        (
            Status.PENDING,
            Cancelled(LATER, "no need"),
            {"status": Status.CANCELLED, "error": "no need", "completed_at": LATER},
        ),
        (
            Status.IN_PROGRESS,
            Completed(LATER, {"v": 1}),
            {"status": Status.COMPLETED, "result": {"v": 1}, "progress": 1.0, "completed_at": LATER},
        ),
        (
            Status.IN_PROGRESS,
            Failed(LATER, "e"),
            {"status": Status.FAILED, "error": "e", "completed_at": LATER},
        ),
        (
            Status.FAILED,
            Retried(LATER),
            {"status": Status.PENDING, "error": None, "started_at": None, "completed_at": None},
        ),
    ],
)
def test_a_move_changes_these_fields_and_no_others(
    status: Status, move: Move, changes: dict[str, object]
) -> None:
    before = in_status(status)

    assert changed_fields(before, transition(before, move)) == {"updated_at": LATER, **changes}


def test_a_retried_task_begins_at_nothing() -> None:
    assert transition(in_status(Status.FAILED, progress=0.8), Retried(LATER)).progress == 0.0


@pytest.mark.parametrize(
    ("given", "kept"),
    [(0.3, 0.3), (-1.0, 0.0), (7.0, 1.0), (math.inf, 1.0), (-math.inf, 0.0), (math.nan, 0.0)],
)
def test_progress_is_kept_within_its_bounds(given: float, kept: float) -> None:
    assert fraction(given) == kept


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("plain", "plain"),
        ("", "failed without a message"),
        ("a\x00b", "a\ufffdb"),
        ("\ud800", "\ufffd"),
        ("\U0001f9f5", "\U0001f9f5"),
    ],
)
def test_an_error_is_kept_as_text_that_is_never_empty(given: str, kept: str) -> None:
    assert error_text(given) == kept
    for move in (Failed(LATER, given), Cancelled(LATER, given)):
        assert transition(in_status(Status.IN_PROGRESS), move).error == kept


def test_a_refused_move_leaves_the_task_as_it_was() -> None:
    task = in_status(Status.COMPLETED)
    before = evolve(task)

    with pytest.raises(InvalidTransition):
        transition(task, Started(LATER))

    assert task == before
