"""The rows of a printed tree."""

import pytest

from tests.builders import in_status
from weft.cli.display.tree import tree_rows
from weft.ids import TaskId
from weft.tasks.flow import Flow
from weft.tasks.record import Status, evolve

STEP = TaskId("c0000000-0000-4000-8000-00000000abcd")


@pytest.mark.parametrize(
    ("status", "said"),
    [(Status.IN_PROGRESS, "0%"), (Status.FAILED, "[unfinished: its run has ended]")],
)
def test_a_step_that_was_under_way_when_its_run_ended_is_not_shown_as_work_going_on(
    status: Status, said: str
) -> None:
    root = in_status(status)
    root = evolve(root, task_tree_id=root.id, has_children=True)
    params = {"step": {"key": "1", "kind": "atomic"}}
    step = evolve(
        in_status(Status.IN_PROGRESS), id=STEP, parent_id=root.id, params=params, task_tree_id=root.id
    )

    _, row = tree_rows(Flow((root, step)), ())

    assert said in row.facts
