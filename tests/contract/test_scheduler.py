"""The scheduler, on every store: what is due is run once, whatever the clock and other schedulers do."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from weft.app import open_store
from weft.clock import ManualClock
from weft.engine.scheduler import Scheduler
from weft.ids import TaskId, new_task_id
from weft.settings import Settings
from weft.store.protocol import EVERYONE, EventFilter, TaskStore
from weft.tasks.flow import Flow
from weft.tasks.operations import SubmitFlow
from weft.tasks.reading import read_flow
from weft.tasks.record import Origin, Status, Task

START = datetime(2025, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOURLY = {"schedule_type": "interval", "schedule_expression": "3600", "schedule_enabled": True}


async def submit(store: TaskStore, clock: ManualClock, *tasks: dict[str, Any]) -> Flow:
    flow = read_flow(list(tasks), new_id=new_task_id, now=clock.now())
    return await store.operate(SubmitFlow(flow, clock.now()), owner=EVERYONE)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def scheduler(store: TaskStore, clock: ManualClock) -> Scheduler:
    return Scheduler(store, clock)


async def runs_of(store: TaskStore, scheduler: Scheduler) -> list[datetime]:
    """The due times that the scheduler fires now; their flows are then taken to have ended."""
    fired = []
    for firing in await scheduler.fire_due():
        if firing.run is not None and firing.due_at is not None:
            fired.append(firing.due_at)
            await store.stop_flow(firing.run.root.id, owner=EVERYONE)
    return fired


async def definition(store: TaskStore, task_id: TaskId) -> Task:
    return await store.get(task_id, owner=EVERYONE)


async def skips(store: TaskStore) -> list[str]:
    events = await store.events(EventFilter(), owner=EVERYONE)
    return [event.facts["why"] for event in events if event.type.value == "schedule.skipped"]


async def test_a_due_definition_is_copied_and_the_copy_is_to_be_run(
    store: TaskStore, clock: ManualClock, scheduler: Scheduler
) -> None:
    flow = await submit(store, clock, {"name": "report", **HOURLY}, {"name": "part", "dependencies": []})
    assert await scheduler.fire_due() == []
    clock.advance(HOUR)

    (firing,) = await scheduler.fire_due()

    assert firing.run is not None
    assert list(await store.running_flows(owner=EVERYONE)) == [firing.run.root.id]
    copy = await store.get(firing.run.root.id, owner=EVERYONE)
    assert (copy.origin_type, copy.original_task_id, copy.schedule_enabled) == (
        Origin.COPY,
        flow.root.id,
        False,
    )
    assert (copy.params or {})["firing"] == {"definition": flow.root.id, "due_at": (START + HOUR).isoformat()}
    assert len(firing.run) == 2
    kept = await definition(store, flow.root.id)
    assert (kept.status, kept.run_count, kept.last_run_at) == (Status.PENDING, 1, START + HOUR)
    assert kept.next_run_at == START + 2 * HOUR
    assert await scheduler.fire_due() == []


async def test_a_scheduled_child_runs_with_what_it_depends_on(
    store: TaskStore, clock: ManualClock, scheduler: Scheduler
) -> None:
    await submit(
        store,
        clock,
        {"name": "root"},
        {"name": "first"},
        {"name": "child", "dependencies": ["first"], **HOURLY},
        {"name": "other"},
    )
    clock.advance(HOUR)

    (firing,) = await scheduler.fire_due()

    assert firing.run is not None
    assert {task.name for task in firing.run} == {"child", "first"}
    assert firing.run.root.name == "child"


async def test_two_schedulers_make_one_run(store: TaskStore, store_url: str, clock: ManualClock) -> None:
    for number in range(10):
        await submit(store, clock, {"name": f"s{number}", **HOURLY})
    clock.advance(HOUR)
    second = await open_store(Settings(db=store_url))
    try:
        fired = await asyncio.gather(
            *(Scheduler(one, clock).fire_due() for one in (store, second, store, second))
        )
    finally:
        await second.close()

    runs = [firing.run.root.original_task_id for some in fired for firing in some if firing.run is not None]
    assert len(runs) == len(set(runs)) == 10


@pytest.mark.parametrize(
    ("policy", "first", "later"),
    [("once", [4], []), ("skip", [], []), ("all", [1], [2, 3, 4])],
)
async def test_missed_times_are_caught_up_with_as_the_policy_says(
    store: TaskStore,
    clock: ManualClock,
    scheduler: Scheduler,
    policy: str,
    first: list[int],
    later: list[int],
) -> None:
    flow = await submit(store, clock, {"name": "a", **HOURLY, "params": {"catchup": policy}})
    clock.advance(4 * HOUR + timedelta(minutes=10))

    assert await runs_of(store, scheduler) == [START + number * HOUR for number in first]
    rest = [due for _ in range(5) for due in await runs_of(store, scheduler)]

    assert rest == [START + number * HOUR for number in later]
    assert len(await skips(store)) == 4 - len(first) - len(later)
    assert (await definition(store, flow.root.id)).next_run_at == START + 5 * HOUR


async def test_on_time_is_not_missed_under_any_policy(
    store: TaskStore, clock: ManualClock, scheduler: Scheduler
) -> None:
    await submit(store, clock, {"name": "a", **HOURLY, "params": {"catchup": "skip"}})
    clock.advance(HOUR + timedelta(seconds=2))

    assert await runs_of(store, scheduler) == [START + HOUR]


@pytest.mark.parametrize(("policy", "runs"), [("skip", 1), ("allow", 2)])
async def test_a_run_may_overlap_the_one_before_only_when_allowed(
    store: TaskStore, clock: ManualClock, scheduler: Scheduler, policy: str, runs: int
) -> None:
    await submit(store, clock, {"name": "a", **HOURLY, "params": {"overlap": policy}})
    clock.advance(HOUR)
    await scheduler.fire_due()
    clock.advance(HOUR)
    await scheduler.fire_due()

    assert len(await store.running_flows(owner=EVERYONE)) == runs
    assert await skips(store) == ["an earlier run is not finished"] * (2 - runs)


async def test_it_stops_after_max_runs_and_at_the_end_of_its_window(
    store: TaskStore, clock: ManualClock, scheduler: Scheduler
) -> None:
    counted = await submit(store, clock, {"name": "a", **HOURLY, "max_runs": 2})
    windowed = await submit(
        store, clock, {"name": "b", **HOURLY, "schedule_end_at": (START + 3 * HOUR).isoformat()}
    )
    fired = []
    for _ in range(6):
        clock.advance(HOUR)
        fired += await runs_of(store, scheduler)

    assert len(fired) == 2 + 3
    for flow in (counted, windowed):
        assert (await definition(store, flow.root.id)).next_run_at is None
        events = await store.events(EventFilter(task=flow.root.id), owner=EVERYONE)
        assert events[-1].type.value != "schedule.skipped"
        assert "schedule.ended" in [event.type.value for event in events]


async def test_once_fires_once(store: TaskStore, clock: ManualClock, scheduler: Scheduler) -> None:
    once = {
        "schedule_type": "once",
        "schedule_expression": (START + HOUR).isoformat(),
        "schedule_enabled": True,
    }
    await submit(store, clock, {"name": "a", **once})
    fired = []
    for _ in range(4):
        clock.advance(HOUR)
        fired += await runs_of(store, scheduler)

    assert fired == [START + HOUR]


async def test_a_clock_that_jumps_back_and_forth_loses_and_doubles_nothing(
    store: TaskStore, clock: ManualClock, scheduler: Scheduler
) -> None:
    await submit(store, clock, {"name": "a", **HOURLY, "params": {"catchup": "all"}})
    fired = []
    for step in (1.5, -1.0, 0.6, 2.0, -3.0, 3.5, 0.0, 0.4):
        clock.advance(step * HOUR)
        for _ in range(6):
            fired += await runs_of(store, scheduler)

    assert fired == [START + number * HOUR for number in range(1, len(fired) + 1)]
    assert len(fired) == 4


async def test_one_definition_that_cannot_be_fired_does_not_hold_up_the_others(
    store: TaskStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = await submit(store, clock, {"name": "bad", **HOURLY})
    await submit(store, clock, {"name": "good", **HOURLY})
    clock.advance(HOUR)
    real = store.has_unfinished_run

    def colliding_id() -> TaskId:
        return bad.root.id if not made else new_task_id()

    made: list[bool] = []

    async def once(task_id: TaskId) -> bool:
        if task_id != bad.root.id:
            made.append(True)
        return await real(task_id)

    monkeypatch.setattr(store, "has_unfinished_run", once)
    firings = await Scheduler(store, clock, new_id=colliding_id).fire_due()

    assert [firing.run.root.name for firing in firings if firing.run is not None] == ["good"]
