"""The scheduler, on every store: what is due is run once, whatever the clock and other schedulers do."""

import asyncio
from datetime import datetime, timedelta

import pytest
from msgspec import Struct

from tests.schedules import HOUR, HOURLY, START, submit
from weft.app.wiring import open_store
from weft.clock import ManualClock
from weft.config.settings import Settings
from weft.engine.scheduler import MAX_CAUGHT_UP, Scheduler
from weft.ids import TaskId, new_task_id
from weft.store.protocol import EVERYONE, DueSchedule, EventFilter, Owner, TaskStore
from weft.tasks.decisions import Decision, ReadSet, Snapshot, WriteSet
from weft.tasks.operations import FireSchedule
from weft.tasks.record import Origin, Status, Task


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def scheduler(store: TaskStore, clock: ManualClock) -> Scheduler:
    return Scheduler(store, clock)


async def runs_of(store: TaskStore, scheduler: Scheduler) -> list[datetime]:
    """Return the due times that the scheduler fires now, and stop their flows."""
    fired = []
    for firing in await scheduler.fire_due():
        if firing.run is not None and firing.due_at is not None:
            fired.append(firing.due_at)
            await store.stop_flow(firing.run.root.id, owner=EVERYONE)
    return fired


async def definition(store: TaskStore, task_id: TaskId) -> Task:
    return await store.get(task_id, owner=EVERYONE)


async def skips(store: TaskStore) -> list[tuple[int | None, str]]:
    """How many times were passed over together, and why."""
    events = await store.events(EventFilter(), owner=EVERYONE)
    return [
        (event.facts.get("times"), event.facts["why"])
        for event in events
        if event.type.value == "schedule.skipped"
    ]


class Look(Struct, frozen=True):
    """Changes nothing; its value is what it was told of unfinished runs."""

    wanted: ReadSet

    def needs(self) -> ReadSet:
        return self.wanted

    def decide(self, found: Snapshot) -> Decision[frozenset[TaskId]]:
        return Decision(WriteSet(), found.with_unfinished_runs)


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
    ("policy", "first", "later", "skipped"),
    [
        ("once", [4], [], [(3, "missed; a later time is due as well")]),
        ("skip", [], [], [(4, "missed")]),
        ("all", [1], [2, 3, 4], []),
    ],
)
async def test_missed_times_are_caught_up_with_as_the_policy_says(
    store: TaskStore,
    clock: ManualClock,
    scheduler: Scheduler,
    policy: str,
    first: list[int],
    later: list[int],
    skipped: list[tuple[int, str]],
) -> None:
    flow = await submit(store, clock, {"name": "a", **HOURLY, "params": {"catchup": policy}})
    clock.advance(4 * HOUR + timedelta(minutes=10))

    assert await runs_of(store, scheduler) == [START + number * HOUR for number in first]
    rest = [due for _ in range(5) for due in await runs_of(store, scheduler)]

    assert rest == [START + number * HOUR for number in later]
    assert await skips(store) == skipped
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
    assert await skips(store) == [(1, "an earlier run is not finished")] * (2 - runs)


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
        ended = await definition(store, flow.root.id)
        # It stays on (decision 56): switched off, it would be an ordinary pending task that a flow runs.
        assert (ended.next_run_at, ended.schedule_enabled, ended.status.value) == (None, True, "pending")
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


@pytest.mark.parametrize(("policy", "runs"), [("once", [10_000]), ("skip", [])])
async def test_however_many_times_were_missed_it_is_dealt_with_at_once(
    store: TaskStore, clock: ManualClock, scheduler: Scheduler, policy: str, runs: list[int]
) -> None:
    flow = await submit(store, clock, {"name": "a", **HOURLY, "params": {"catchup": policy}})
    clock.advance(10_000 * HOUR + timedelta(minutes=10))

    fired = [due for _ in range(3) for due in await runs_of(store, scheduler)]

    assert fired == [START + number * HOUR for number in runs]
    assert len(await skips(store)) == 1
    kept = await definition(store, flow.root.id)
    assert (kept.run_count, kept.next_run_at) == (len(runs), START + 10_001 * HOUR)


async def test_missed_runs_that_are_all_to_be_made_wait_for_the_one_before(
    store: TaskStore, clock: ManualClock, scheduler: Scheduler
) -> None:
    flow = await submit(store, clock, {"name": "a", **HOURLY, "params": {"catchup": "all"}})
    clock.advance(3 * HOUR)
    (first,) = await scheduler.fire_due()

    waiting = [await scheduler.fire_due() for _ in range(3)]

    assert waiting == [[], [], []]
    assert (await definition(store, flow.root.id)).next_run_at == START + 2 * HOUR
    assert first.run is not None
    await store.stop_flow(first.run.root.id, owner=EVERYONE)
    assert [due for _ in range(4) for due in await runs_of(store, scheduler)] == [
        START + 2 * HOUR,
        START + 3 * HOUR,
    ]
    assert await skips(store) == []


async def test_missed_runs_that_may_overlap_are_made_in_one_round_up_to_a_limit(
    store: TaskStore, clock: ManualClock, scheduler: Scheduler
) -> None:
    params = {"catchup": "all", "overlap": "allow"}
    await submit(store, clock, {"name": "a", **HOURLY, "params": params})
    clock.advance((MAX_CAUGHT_UP + 3) * HOUR)
    await submit(store, clock, {"name": "b", **HOURLY, "params": params})
    clock.advance(2 * HOUR)

    rounds = [await scheduler.fire_due() for _ in range(3)]

    names = [[firing.run.root.name for firing in firings if firing.run is not None] for firings in rounds]
    assert names == [["a"] * MAX_CAUGHT_UP + ["b"] * 2, ["a"] * 5, []]
    fired = [firing.due_at for firings in rounds for firing in firings if firing.due_at is not None]
    assert sorted(fired) == sorted(
        [START + number * HOUR for number in range(1, MAX_CAUGHT_UP + 6)]
        + [START + (MAX_CAUGHT_UP + 3 + number) * HOUR for number in (1, 2)]
    )


async def test_two_schedulers_that_catch_up_never_make_overlapping_runs(
    store: TaskStore, store_url: str, clock: ManualClock
) -> None:
    for number in range(10):
        await submit(store, clock, {"name": f"s{number}", **HOURLY, "params": {"catchup": "all"}})
    clock.advance(4 * HOUR)
    second = await open_store(Settings(db=store_url))
    try:
        for number in range(1, 5):
            fired = await asyncio.gather(
                *(Scheduler(one, clock).fire_due() for one in (store, second, store, second))
            )
            firings = [firing for some in fired for firing in some if firing.run is not None]
            assert [firing.due_at for firing in firings] == [START + number * HOUR] * 10
            running = await store.running_flows(owner=EVERYONE)
            assert len(running) == 10
            for root_id in running:
                await store.stop_flow(root_id, owner=EVERYONE)
    finally:
        await second.close()


async def test_two_firings_in_one_transaction_see_each_others_run(
    store: TaskStore, clock: ManualClock
) -> None:
    flow = await submit(store, clock, {"name": "a", **HOURLY, "params": {"catchup": "all"}})
    clock.advance(3 * HOUR)
    fire = FireSchedule(task_id=flow.root.id, new_id=new_task_id, now=clock.now())

    firings = await asyncio.gather(*(store.operate(fire, owner=EVERYONE) for _ in range(4)))

    assert [firing.due_at for firing in firings if firing.run is not None] == [START + HOUR]


async def test_an_operation_learns_which_tasks_have_an_unfinished_run(
    store: TaskStore, clock: ManualClock, scheduler: Scheduler
) -> None:
    fired = await submit(store, clock, {"name": "a", **HOURLY})
    idle = await submit(store, clock, {"name": "b"})
    needs = ReadSet(unfinished_runs_of=(fired.root.id, idle.root.id, TaskId("no id")))
    clock.advance(HOUR)

    assert await store.operate(Look(needs), owner=EVERYONE) == frozenset()
    (firing,) = await scheduler.fire_due()
    assert await store.operate(Look(needs), owner=EVERYONE) == {fired.root.id}
    assert await store.operate(Look(needs), owner=Owner("somebody else")) == frozenset()
    assert firing.run is not None
    await store.stop_flow(firing.run.root.id, owner=EVERYONE)
    assert await store.operate(Look(needs), owner=EVERYONE) == frozenset()


async def test_due_schedules_come_in_pages_the_longest_overdue_first(
    store: TaskStore, clock: ManualClock
) -> None:
    ids = []
    for _ in range(3):
        ids += sorted([(await submit(store, clock, {"name": "a", **HOURLY})).root.id for _ in range(3)])
        clock.advance(timedelta(minutes=1))
    clock.advance(HOUR)

    found: list[DueSchedule] = []
    while page := await store.due_schedules(now=clock.now(), limit=2, after=found[-1] if found else None):
        found += page

    assert [due.task_id for due in found] == ids
    assert not any(due.has_unfinished_run for due in found)
