"""How a flow stands as a whole."""

import msgspec
import pytest

from tests.builders import a_flow, completed, in_status, named, with_task
from tests.schedules import HOURLY
from weft.tasks.flow import Flow
from weft.tasks.record import Status, evolve
from weft.tasks.summary import blocked, summarize


def with_status(flow: Flow, **statuses: Status) -> Flow:
    for name, status in statuses.items():
        task = named(flow, name)
        moved = in_status(status)
        changes = {
            field: getattr(moved, field)
            for field in ("status", "result", "error", "progress", "started_at", "completed_at")
        }
        flow = with_task(flow, evolve(task, **changes))
    return flow


def blocked_names(flow: Flow) -> set[str]:
    return {flow[task_id].name for task_id in blocked(flow)}


@pytest.mark.parametrize(
    ("statuses", "overall"),
    [
        ("pending pending", Status.PENDING),
        ("completed pending", Status.PENDING),
        ("completed completed", Status.COMPLETED),
        ("completed failed", Status.FAILED),
        ("pending failed", Status.FAILED),
        ("cancelled pending", Status.CANCELLED),
        ("cancelled completed", Status.CANCELLED),
        ("failed cancelled", Status.FAILED),
        ("in_progress failed", Status.IN_PROGRESS),
        ("pending in_progress", Status.IN_PROGRESS),
    ],
)
def test_the_status_of_a_flow_follows_from_its_tasks(statuses: str, overall: Status) -> None:
    a, b = map(Status, statuses.split())

    assert summarize(with_status(a_flow("a", "b"), a=a, b=b)).status is overall


def test_a_summary_counts_the_tasks_in_each_status() -> None:
    flow = with_status(
        a_flow("a", "b", "c", {"name": "d", "dependencies": ["c"]}), a=Status.COMPLETED, c=Status.FAILED
    )

    summary = summarize(flow)

    assert summary.root_id == flow.root.id
    assert summary.counts == {"pending": 2, "completed": 1, "failed": 1}
    assert summary.blocked == 1


CHAIN = (
    "a",
    {"name": "b", "dependencies": ["a"]},
    {"name": "c", "dependencies": ["b"]},
    {"name": "d", "dependencies": [{"name": "c", "required": False}]},
    {"name": "e", "dependencies": [{"name": "a", "required": False}]},
)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (Status.PENDING, set()),
        (Status.IN_PROGRESS, set()),
        (Status.COMPLETED, set()),
        (Status.FAILED, {"b", "c", "d"}),
        (Status.CANCELLED, {"b", "c", "d"}),
    ],
)
def test_what_waits_for_a_required_task_that_broke_is_blocked_and_all_that_waits_for_it(
    status: Status, expected: set[str]
) -> None:
    assert blocked_names(with_status(a_flow(*CHAIN), a=status)) == expected


def test_a_task_that_has_ended_stops_the_blocking() -> None:
    flow = with_status(a_flow(*CHAIN), a=Status.FAILED, c=Status.COMPLETED)

    assert blocked_names(flow) == {"b"}


def test_a_completed_flow_is_blocked_nowhere() -> None:
    assert blocked(completed(a_flow(*CHAIN))) == set()


@pytest.mark.parametrize(
    ("statuses", "is_over"),
    [
        ("completed completed", True),
        ("failed cancelled", True),
        ("failed pending", True),
        ("completed pending", False),
        ("in_progress pending", False),
        ("completed in_progress", False),
    ],
)
def test_a_flow_is_over_when_nothing_of_it_can_go_on(statuses: str, is_over: bool) -> None:
    a, b = map(Status, statuses.split())
    flow = with_status(a_flow("a", {"name": "b", "dependencies": ["a"]}), a=a, b=b)

    assert summarize(flow).is_over is is_over


def test_a_flow_is_over_when_the_rest_of_it_waits_for_a_schedule() -> None:
    flow = with_status(
        a_flow(
            "a",
            {"name": "b", **HOURLY},
            {"name": "c", "dependencies": ["b"]},
            {"name": "d", "dependencies": ["c", "e"]},
            "e",
        ),
        a=Status.COMPLETED,
        e=Status.FAILED,
    )

    summary = summarize(flow)

    assert (summary.blocked, summary.scheduled, summary.is_over) == (1, 2, True)
    assert msgspec.to_builtins(summarize(a_flow("a"))).keys() == {"root_id", "status", "counts", "blocked"}
