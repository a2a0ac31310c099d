"""The fields that a run stores with its steps are decoded, whoever has written them."""

from typing import Any

import pytest

from tests.builders import a_task
from weft.tasks.steps import StepFields, StoredFailure, Usage, restarted_step, step_fields, with_step_fields


def test_the_fields_of_a_step_are_typed() -> None:
    failure = {"code": "task-failed", "error": {"message": "no"}}
    task = a_task(
        params={"step": {"key": "1/2", "kind": "atomic", "failure": failure, "spent": {"turns": 2}}}
    )

    assert step_fields(task) == StepFields(
        key="1/2",
        kind="atomic",
        failure=StoredFailure("task-failed", {"message": "no"}),
        spent=Usage(turns=2),
    )


@pytest.mark.parametrize("params", [None, {}, {"step": None}, {"step": "1"}, {"step": ["key"]}])
def test_other_records_have_no_fields(params: dict[str, Any] | None) -> None:
    assert step_fields(a_task(params=params)) == StepFields()


def test_a_malformed_field_counts_as_absent_and_the_others_count() -> None:
    task = a_task(params={"step": {"key": "1", "kind": 7, "due_at": [], "spent": "much", "later": 1}})

    assert step_fields(task) == StepFields(key="1")


def test_a_change_keeps_the_fields_that_this_version_does_not_know() -> None:
    task = a_task(params={"prompt": {}, "step": {"key": "1", "later": 1, "unfit": True}})

    changed = with_step_fields(task, called_off=True, unfit=None)

    assert changed.params == {"prompt": {}, "step": {"key": "1", "later": 1, "called_off": True}}


def test_a_restarted_step_keeps_its_key_and_what_was_spent() -> None:
    task = a_task(params={"step": {"key": "1", "kind": "atomic", "failure": {}, "called_off": True}})

    restarted = restarted_step(task, Usage(turns=1, cost=0.5))

    spent = {"turns": 1, "cost": 0.5}
    assert restarted.params == {"step": {"key": "1", "kind": "atomic", "spent": spent}}
