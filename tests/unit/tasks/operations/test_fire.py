"""Firing a schedule: what is run, what is passed over, when it is due next."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.builders import NOON, a_flow, numbered_ids
from weft.tasks.decisions import Decision, Snapshot
from weft.tasks.events import EventType
from weft.tasks.flow import Flow
from weft.tasks.operations import FireSchedule, Firing
from weft.tasks.operations.fire import MAX_COUNTED, ON_TIME
from weft.tasks.record import Task

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
YEAR = timedelta(days=365)


def a_schedule(expression: str = "* * * * *", *, params: dict[str, Any] | None = None, **fields: Any) -> Flow:
    """Return a definition that is first due at the minute after noon."""
    schedule = {"schedule_type": "cron", "schedule_expression": expression, "schedule_enabled": True}
    return a_flow({"name": "a", **schedule, "params": params or {}, **fields})


def fire(flow: Flow, *, now: datetime, has_unfinished_run: bool = False) -> Decision[Firing]:
    operation = FireSchedule(task_id=flow.root.id, new_id=numbered_ids("b"), now=now)
    running = frozenset({flow.root.id}) if has_unfinished_run else frozenset()
    return operation.decide(Snapshot(flows={flow.root.id: flow}, with_unfinished_runs=running))


def moved(decision: Decision[Firing]) -> Task:
    (definition,) = decision.changes.updated
    return definition


def skipped(decision: Decision[Firing]) -> list[dict[str, Any]]:
    return [event.facts for event in decision.changes.events if event.type is EventType.SCHEDULE_SKIPPED]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Australia/Lord_Howe"])
def test_a_year_of_missed_minutes_is_one_run_for_the_last_of_them(zone: str) -> None:
    flow = a_schedule(params={"timezone": zone})
    now = NOON + YEAR + timedelta(seconds=30)
    began = time.perf_counter()

    decision = fire(flow, now=now)

    assert time.perf_counter() - began < 5, "it was not found by a search from now backwards"
    assert decision.value.due_at == NOON + YEAR
    assert not decision.value.is_due_again
    assert (moved(decision).next_run_at, moved(decision).run_count) == (NOON + YEAR + MINUTE, 1)
    assert skipped(decision) == [
        {
            "from": (NOON + MINUTE).isoformat(),
            "to": (NOON + YEAR - MINUTE).isoformat(),
            "times_at_least": 1 + MAX_COUNTED,
            "why": "missed; a later time is due as well",
        }
    ]


def test_a_year_of_missed_times_is_passed_over_when_missed_ones_are_not_wanted() -> None:
    flow = a_schedule("0 * * * *", params={"catchup": "skip"})
    now = NOON + 150 * HOUR + ON_TIME + timedelta(seconds=1)

    decision = fire(flow, now=now)

    assert decision.value.run is None
    assert not decision.changes.added
    assert (moved(decision).next_run_at, moved(decision).run_count) == (NOON + 151 * HOUR, 0)
    assert moved(decision).last_run_at is None
    assert skipped(decision) == [
        {
            "from": (NOON + HOUR).isoformat(),
            "to": (NOON + 150 * HOUR).isoformat(),
            "times": 150,
            "why": "missed",
        }
    ]


def test_the_latest_time_is_not_missed_while_it_is_on_time() -> None:
    flow = a_schedule("0 * * * *", params={"catchup": "skip"})

    decision = fire(flow, now=NOON + 150 * HOUR + ON_TIME)

    assert decision.value.due_at == NOON + 150 * HOUR
    assert [facts["times"] for facts in skipped(decision)] == [149]


@pytest.mark.parametrize(
    ("expression", "now", "due", "following"),
    [
        # Clocks go forward at 01:00 UTC: half past two does not exist, and is made up for at once.
        ("30 2 * * *", "2025-03-30T01:10Z", "2025-03-30T01:00Z", "2025-03-31T00:30Z"),
        ("30 2 * * *", "2025-03-30T00:59Z", "2025-03-29T01:30Z", "2025-03-30T01:00Z"),
        # Clocks go back at 01:00 UTC: half past two comes twice, and counts at its first showing.
        ("30 2 * * *", "2025-10-26T01:40Z", "2025-10-26T00:30Z", "2025-10-27T01:30Z"),
        ("30 * * * *", "2025-10-26T01:40Z", "2025-10-26T01:30Z", "2025-10-26T02:30Z"),
    ],
)
def test_the_latest_missed_time_is_found_on_days_on_which_clocks_change(
    expression: str, now: str, due: str, following: str
) -> None:
    flow = a_schedule(expression, params={"timezone": "Europe/Berlin"})

    decision = fire(flow, now=datetime.fromisoformat(now))

    assert decision.value.due_at == datetime.fromisoformat(due)
    assert moved(decision).next_run_at == datetime.fromisoformat(following)


@pytest.mark.parametrize("policy", ["once", "skip"])
def test_nothing_is_run_beside_an_unfinished_run_and_what_is_due_is_passed_over(policy: str) -> None:
    flow = a_schedule(params={"catchup": policy})

    decision = fire(flow, now=NOON + 500 * MINUTE, has_unfinished_run=True)

    assert decision.value == Firing()
    assert moved(decision).next_run_at == NOON + 501 * MINUTE
    assert [(facts["times"], facts["why"]) for facts in skipped(decision)] == [
        (500, "an earlier run is not finished")
    ]


def test_when_all_runs_are_wanted_they_wait_for_an_unfinished_one() -> None:
    decision = fire(a_schedule(params={"catchup": "all"}), now=NOON + 500 * MINUTE, has_unfinished_run=True)

    assert decision.value == Firing()
    assert (decision.changes.updated, decision.changes.events) == ((), ())


@pytest.mark.parametrize(("overlap", "is_due_again"), [("skip", False), ("allow", True)])
def test_when_all_runs_are_wanted_the_first_missed_one_comes_first(overlap: str, is_due_again: bool) -> None:
    flow = a_schedule(params={"catchup": "all", "overlap": overlap})

    decision = fire(flow, now=NOON + 500 * MINUTE)

    assert (decision.value.due_at, decision.value.is_due_again) == (NOON + MINUTE, is_due_again)
    assert moved(decision).next_run_at == NOON + 2 * MINUTE
    assert skipped(decision) == []


def test_when_all_runs_are_wanted_and_may_overlap_an_unfinished_one_does_not_matter() -> None:
    flow = a_schedule(params={"catchup": "all", "overlap": "allow"})

    decision = fire(flow, now=NOON + 500 * MINUTE, has_unfinished_run=True)

    assert decision.value.due_at == NOON + MINUTE


@pytest.mark.parametrize(("policy", "due"), [("once", 5000), ("all", 1)])
def test_the_last_of_max_runs_ends_the_schedule_however_many_times_were_missed(policy: str, due: int) -> None:
    flow = a_schedule(params={"catchup": policy, "overlap": "allow"}, max_runs=1)

    decision = fire(flow, now=NOON + 5000 * MINUTE)

    assert decision.value.due_at == NOON + due * MINUTE
    assert not decision.value.is_due_again
    assert (moved(decision).next_run_at, moved(decision).run_count) == (None, 1)
    assert EventType.SCHEDULE_ENDED in [event.type for event in decision.changes.events]


def test_fewer_runs_left_than_times_missed_does_not_make_an_earlier_time_the_latest() -> None:
    decision = fire(a_schedule(max_runs=3), now=NOON + 500 * MINUTE)

    assert decision.value.due_at == NOON + 500 * MINUTE
    assert moved(decision).next_run_at == NOON + 501 * MINUTE
    assert [facts["times"] for facts in skipped(decision)] == [499]


@pytest.mark.parametrize(("policy", "due"), [("once", 300), ("skip", None)])
def test_after_its_window_only_the_last_time_in_it_counts(policy: str, due: int | None) -> None:
    window = {
        "schedule_start_at": (NOON + 100 * MINUTE).isoformat(),
        "schedule_end_at": (NOON + 300 * MINUTE).isoformat(),
    }

    decision = fire(a_schedule(params={"catchup": policy}, **window), now=NOON + YEAR)

    assert decision.value.due_at == (None if due is None else NOON + due * MINUTE)
    assert moved(decision).next_run_at is None
    (facts,) = skipped(decision)
    assert facts["from"] == (NOON + 100 * MINUTE).isoformat()
    assert facts["times"] == (200 if due else 201)


@pytest.mark.parametrize("now", [NOON - YEAR, NOON, NOON + MINUTE - timedelta.resolution])
def test_nothing_happens_before_its_time_as_when_the_clock_was_put_back(now: datetime) -> None:
    decision = fire(a_schedule(), now=now)

    assert decision.value == Firing()
    assert decision.changes.updated == ()


def test_nothing_happens_while_the_schedule_is_off() -> None:
    assert fire(a_schedule(schedule_enabled=False), now=NOON + DAY).value == Firing()


def test_a_run_says_which_definition_and_due_time_it_is_of() -> None:
    flow = a_schedule()

    decision = fire(flow, now=NOON + MINUTE)

    assert decision.value.run is not None
    assert (decision.value.run.root.params or {})["firing"] == {
        "definition": flow.root.id,
        "due_at": datetime(2025, 1, 15, 12, 1, tzinfo=UTC).isoformat(),
    }
    assert decision.changes.run == (decision.value.run.root.id,)
    assert moved(decision).last_run_at == NOON + MINUTE
