"""Rules between the fields of one task."""

from datetime import timedelta
from typing import Any

import pytest

from tests.batches import batched
from tests.builders import NOON, a_task, in_status
from weft.ids import TaskId
from weft.tasks.parsing.rules import consistency_problems
from weft.tasks.record import Origin, ScheduleType, Status, Task

SOURCE = TaskId("bbbbbbbb-0000-4000-8000-000000000001")
LATER = NOON + timedelta(hours=1)
SCHEDULED: dict[str, Any] = {
    "schedule_enabled": True,
    "schedule_type": ScheduleType.INTERVAL,
    "schedule_expression": "60",
}


def found(task: Task) -> list[tuple[str, str]]:
    return [(problem.field, problem.reason) for problem in consistency_problems(task)]


@pytest.mark.parametrize("status", list(Status))
def test_a_task_as_the_state_machine_leaves_it_breaks_no_rule(status: Status) -> None:
    assert found(in_status(status)) == []


# Which values a status refuses; everything else it takes.
MUST_BE_NULL = {
    "result": {Status.PENDING, Status.IN_PROGRESS, Status.FAILED, Status.CANCELLED},
    "error": {Status.PENDING, Status.IN_PROGRESS, Status.COMPLETED},
    "started_at": {Status.PENDING},
    "completed_at": {Status.PENDING, Status.IN_PROGRESS},
}
MUST_BE_SET = {
    "result": set[Status](),  # "SHOULD be populated"
    "error": {Status.FAILED, Status.CANCELLED},
    "started_at": {Status.IN_PROGRESS},
    "completed_at": {Status.COMPLETED, Status.FAILED, Status.CANCELLED},
}
VALUES: dict[str, Any] = {"result": {"v": 1}, "error": "e", "started_at": NOON, "completed_at": NOON}


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("field", list(MUST_BE_NULL))
def test_a_field_is_null_or_set_as_the_status_demands(status: Status, field: str) -> None:
    is_refused_when_set = field in {name for name, _ in found(in_status(status, **{field: VALUES[field]}))}
    is_refused_when_null = field in {name for name, _ in found(in_status(status, **{field: None}))}

    assert is_refused_when_set == (status in MUST_BE_NULL[field])
    assert is_refused_when_null == (status in MUST_BE_SET[field])


@pytest.mark.parametrize(
    ("task", "field", "reason"),
    [
        (a_task(progress=0.5), "progress", "must be 0 while status is pending"),
        (in_status(Status.COMPLETED, progress=0.5), "progress", "must be 1 when status is completed"),
        (a_task(max_runs=1, run_count=2), "run_count", "must not be more than max_runs"),
        (
            a_task(schedule_end_at=NOON, next_run_at=LATER),
            "next_run_at",
            "must not be later than schedule_end_at",
        ),
        (
            in_status(Status.COMPLETED, origin_type=Origin.LINK),
            "original_task_id",
            "must name the source when origin_type is link",
        ),
        (
            in_status(Status.COMPLETED, origin_type=Origin.ARCHIVE),
            "original_task_id",
            "must name the source when origin_type is archive",
        ),
        (
            a_task(origin_type=Origin.LINK, original_task_id=SOURCE),
            "status",
            "must be completed when origin_type is link",
        ),
        (
            in_status(Status.FAILED, origin_type=Origin.ARCHIVE, original_task_id=SOURCE),
            "status",
            "must be completed when origin_type is archive",
        ),
        (a_task(original_task_id=a_task().id), "original_task_id", "must not be the task itself"),
        (
            a_task(schedule_enabled=True, schedule_expression="60"),
            "schedule_type",
            "must be set when schedule_enabled",
        ),
        (
            a_task(schedule_enabled=True, schedule_type=ScheduleType.CRON),
            "schedule_expression",
            "must be set when schedule_enabled",
        ),
        (a_task(**{**SCHEDULED, "schedule_expression": "soon"}), "schedule_expression", "expected"),
        (a_task(**SCHEDULED, params={"timezone": "Mars/Olympus"}), "params.timezone", "expected"),
        (a_task(**SCHEDULED, schedule_start_at=LATER, schedule_end_at=NOON), "schedule_start_at", "expected"),
    ],
)
def test_a_broken_rule_is_one_problem_at_its_field(task: Task, field: str, reason: str) -> None:
    (problem,) = consistency_problems(task, path="[3]")

    assert (problem.field, problem.path) == (field, f"[3].{field}")
    assert reason in problem.reason


@batched(
    "task",
    [
        in_status(Status.COMPLETED, result=None),
        in_status(Status.COMPLETED, started_at=None),
        in_status(Status.CANCELLED, started_at=None),
        in_status(Status.FAILED, progress=0.7),
        in_status(Status.CANCELLED, progress=0.0),
        in_status(Status.IN_PROGRESS, progress=1.0),
        a_task(origin_type=Origin.COPY),
        a_task(origin_type=Origin.COPY, original_task_id=SOURCE),
        in_status(Status.COMPLETED, origin_type=Origin.LINK, original_task_id=SOURCE),
        a_task(max_runs=2, run_count=2),
        a_task(max_runs=0),
        a_task(schedule_end_at=NOON, next_run_at=NOON),
        a_task(**SCHEDULED),
        # "When schedule_enabled is false, scheduling fields MAY be present but are ignored."
        a_task(schedule_type=ScheduleType.CRON),
        a_task(schedule_type=ScheduleType.CRON, schedule_expression="not cron at all"),
    ],
)
def test_what_no_rule_forbids_is_fine(task: Task) -> None:
    assert found(task) == []


def test_all_broken_rules_are_reported_at_once() -> None:
    task = a_task(
        result={},
        error="e",
        started_at=NOON,
        completed_at=NOON,
        progress=0.1,
        origin_type=Origin.LINK,
        max_runs=0,
        run_count=1,
        schedule_enabled=True,
    )

    assert [field for field, _ in found(task)] == [
        "result",
        "error",
        "started_at",
        "completed_at",
        "progress",
        "original_task_id",
        "status",
        "run_count",
        "schedule_type",
        "schedule_expression",
    ]
