"""A scheduler that meets with errors, on every store: it goes on, and says so."""

import asyncio
from datetime import datetime, timedelta

import pytest
from msgspec import Struct

from tests.schedules import HOUR, HOURLY, START, submit
from weft.app.app import App
from weft.clock import ManualClock
from weft.config.settings import Settings
from weft.engine.scheduler import Scheduler
from weft.ids import TaskId, new_task_id
from weft.store.protocol import EVERYONE, TaskStore
from weft.tasks.decisions import Decision, ReadSet, Snapshot, WriteSet
from weft.tasks.record import ScheduleType, evolve


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


class BreakSchedule(Struct, frozen=True):
    """Makes a definition one that cannot be fired, past all checks, as a damaged store would hold it."""

    task_id: TaskId
    expression: str = "no cron"

    def needs(self) -> ReadSet:
        return ReadSet(tasks=(self.task_id,))

    def decide(self, found: Snapshot) -> Decision[None]:
        broken = evolve(
            found.task(self.task_id), schedule_type=ScheduleType.CRON, schedule_expression=self.expression
        )
        return Decision(WriteSet(updated=(broken,)), None)


async def submit_broken(store: TaskStore, clock: ManualClock, *, count: int) -> list[TaskId]:
    flows = [await submit(store, clock, {"name": f"broken {number}", **HOURLY}) for number in range(count)]
    for flow in flows:
        await store.operate(BreakSchedule(flow.root.id), owner=EVERYONE)
    return [flow.root.id for flow in flows]


async def test_definitions_that_cannot_be_fired_do_not_hold_up_the_others(
    store: TaskStore, clock: ManualClock
) -> None:
    await submit_broken(store, clock, count=5)
    clock.advance(timedelta(minutes=1))
    await submit(store, clock, {"name": "good", **HOURLY})
    clock.advance(HOUR)

    firings = await Scheduler(store, clock, batch=2).fire_due()

    assert [firing.run.root.name for firing in firings if firing.run is not None] == ["good"]


async def test_a_definition_that_cannot_be_fired_is_tried_ever_more_rarely_and_told_of_once_a_minute(
    store: TaskStore, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    (broken,) = await submit_broken(store, clock, count=1)
    clock.advance(HOUR)
    scheduler = Scheduler(store, clock)

    for _ in range(10 * 60):
        await scheduler.fire_due()
        clock.advance(timedelta(seconds=1))

    told = [record for record in caplog.records if getattr(record, "action", "") == "fire_failed"]
    assert {getattr(record, "task_id", "") for record in told} == {broken}
    assert all(record.exc_info for record in told)
    assert 9 <= len(told) <= 10


async def test_a_definition_that_was_mended_fires_within_a_minute(
    store: TaskStore, clock: ManualClock
) -> None:
    (broken,) = await submit_broken(store, clock, count=1)
    clock.advance(HOUR)
    scheduler = Scheduler(store, clock)
    for _ in range(10):
        await scheduler.fire_due()
        clock.advance(timedelta(minutes=1))
    await store.operate(BreakSchedule(broken, "* * * * *"), owner=EVERYONE)

    assert [firing.run is not None for firing in await scheduler.fire_due()] == [True]


async def test_a_clock_that_goes_back_does_not_prolong_the_wait_for_the_next_try(
    store: TaskStore, clock: ManualClock
) -> None:
    (broken,) = await submit_broken(store, clock, count=1)
    clock.advance(1000 * HOUR)
    scheduler = Scheduler(store, clock)
    assert await scheduler.fire_due() == []
    await store.operate(BreakSchedule(broken, "* * * * *"), owner=EVERYONE)
    clock.advance(-500 * HOUR)

    assert [firing.run is not None for firing in await scheduler.fire_due()] == [True]


async def test_the_loop_goes_on_after_an_error_of_any_kind(
    store: TaskStore, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    await submit(store, clock, {"name": "a", **HOURLY})
    clock.advance(HOUR)
    errors = [RuntimeError("no ids left"), KeyError("odd")]

    def new_id() -> TaskId:
        clock.advance(timedelta(minutes=1))
        if errors:
            raise errors.pop(0)
        return new_task_id()

    class Unsteady(ManualClock):
        """Fails where no single definition is concerned."""

        def now(self) -> datetime:
            if caplog.records and len(seen) < 2:
                seen.append(1)
                raise ValueError("no time")
            return clock.now()

    seen: list[int] = []
    loop = asyncio.create_task(Scheduler(store, Unsteady(), new_id=new_id, poll_seconds=0).run())
    try:
        async with asyncio.timeout(30):
            while not await store.running_flows(owner=EVERYONE):
                pass  # the loop goes on while the store is asked
        assert not loop.done()
    finally:
        loop.cancel()
        await asyncio.wait([loop])

    assert not errors
    assert len(seen) == 2
    assert {getattr(record, "action", "") for record in caplog.records} >= {
        "fire_failed",
        "scheduler_round_failed",
    }
    assert "no ids left" in caplog.text
    assert "no time" in caplog.text


async def test_serving_ends_with_the_error_of_a_scheduler_that_died(
    store: TaskStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, store_url: str
) -> None:
    async def die(_self: Scheduler) -> None:
        raise RuntimeError("the scheduler died")

    monkeypatch.setattr(Scheduler, "run", die)
    app = App(store, settings=Settings(db=store_url), clock=clock)
    try:
        async with asyncio.timeout(30):
            with pytest.raises(RuntimeError, match="the scheduler died"):
                await app.serve()
    finally:
        await app.stop()
