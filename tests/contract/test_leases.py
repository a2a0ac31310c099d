"""Leases, clocks and stores that are replaced: what a worker does when it cannot be sure of its tasks."""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from tests.builders import NOON, a_flow
from tests.engine_bench import QUICK, Bench, actions, statuses, task
from tests.faulty_store import FaultyStore
from tests.runs_bench import RunsBench
from tests.schedules import HOURLY
from weft.app.app import App
from weft.app.wiring import open_store
from weft.clock import Clock, ManualClock, SystemClock
from weft.config.settings import Settings, is_memory
from weft.engine.scheduler import Scheduler
from weft.engine.worker import FENCE_FACTOR, LOCKED_LEASE_FACTOR
from weft.errors import EXIT_UNAVAILABLE
from weft.executors.protocol import ExecutionFailed, Work
from weft.ids import new_task_id
from weft.runs.executor import TemplateExecutor
from weft.runs.sessions import LeasedSlots
from weft.store.errors import SchemaTooNew, StoreReplaced, StoreUnreachable
from weft.store.protocol import EVERYONE, AttemptResult, ClaimRequest, EventFilter, TaskStore
from weft.store.sqlite.memory import open_memory
from weft.tasks.events import EventType
from weft.tasks.operations import SubmitFlow
from weft.tasks.record import Status
from weft.tasks.states import Failed

HOUR = timedelta(hours=1)


async def until(is_so: Callable[[], Awaitable[Any]] | Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while True:
            found = is_so()
            if await found if asyncio.iscoroutine(found) else found:
                return
            await asyncio.sleep(0.005)


class ShiftedClock:
    """The machine's clock, put forward or back."""

    def __init__(self, shift: timedelta = timedelta()) -> None:
        self.shift = shift

    def now(self) -> datetime:
        return SystemClock().now() + self.shift


@pytest.fixture
async def two_stores(store_url: str) -> AsyncIterator[Callable[[Clock | None], Awaitable[TaskStore]]]:
    opened: list[TaskStore] = []

    async def open_one(clock: Clock | None = None) -> TaskStore:
        opened.append(await open_store(Settings(db=store_url), clock=clock))
        return opened[-1]

    yield open_one
    for one in opened:
        await one.close()


async def test_a_worker_that_cannot_renew_its_lease_stops_its_attempts(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    faulty = FaultyStore(bench.store)
    bench.store = faulty.as_store
    ended: list[float] = []
    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def hang(work: Work) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(loop.time())

    bench.executor("hang", hang)
    flow = await bench.submit(task("a", "hang"))
    factor = LOCKED_LEASE_FACTOR if bench.store.renews_with_lock else 1
    limits = msgspec.structs.replace(QUICK, lease_seconds=0.6 / factor)
    engine = await bench.engine(limits)
    await engine.join(flow.root.id)
    await asyncio.wait_for(started.wait(), 20)
    cut_off_at = loop.time()
    with caplog.at_level(logging.WARNING):
        faulty.fail("renew_worker", *[StoreUnreachable("cut off")] * 10_000)
        await until(lambda: ended)

    assert "lease_not_renewed" in actions(caplog.records)
    assert ended[0] - cut_off_at < 0.6 * (FENCE_FACTOR + 0.2), "before anybody may take the task over"


async def test_a_claim_that_is_heard_of_after_the_lease_has_run_out_is_not_begun(bench: Bench) -> None:
    """The reply was lost, or the process was frozen; meanwhile another one has taken the task over."""
    faulty = FaultyStore(bench.store)
    bench.store = faulty.as_store
    attempts: list[int] = []

    async def note(work: Work) -> None:
        attempts.append(work.attempt)

    bench.executor("note", note)
    flow = await bench.submit(task("a", "note"))
    faulty.hold_claims()
    factor = LOCKED_LEASE_FACTOR if bench.store.renews_with_lock else 1
    engine = await bench.engine(msgspec.structs.replace(QUICK, lease_seconds=0.6 / factor))
    await engine.join(flow.root.id)
    await asyncio.wait_for(faulty.has_claimed.wait(), 20)
    faulty.fail("renew_worker", *[StoreUnreachable("cut off")] * 10_000)
    await until(lambda: not engine._worker.has_lease)
    await bench.store.recover(dead=[engine._worker.id])
    faulty.may_answer.set()
    await asyncio.sleep(0.1)
    faulty.mend("renew_worker")
    await until(lambda: attempts)

    assert attempts == [2]


async def test_a_worker_whose_lease_has_run_out_claims_nothing(
    two_stores: Callable[[Clock | None], Awaitable[TaskStore]],
) -> None:
    clock = ManualClock(NOON)
    store = await two_stores(clock)
    flow = await store.operate(SubmitFlow(a_flow("root"), NOON, is_run=True), owner=EVERYONE)
    await store.add_worker("w", lease_seconds=1)
    clock.advance(timedelta(seconds=2))

    _, outlook = await store.advance([], ClaimRequest(flows=[flow.root.id], worker="w", slots=1))

    assert not getattr(outlook, "claimed", None)


async def test_engines_whose_clocks_differ_by_an_hour_run_each_task_once(
    store_url: str, postgresql: str
) -> None:
    """The clock of PostgreSQL decides; the machines' own are not asked."""
    if not store_url.startswith("postgresql"):
        pytest.skip("processes that share a SQLite file share a clock")
    runs: list[str] = []
    apps: list[App] = []
    for shift in (-HOUR, HOUR):
        store = await open_store(Settings(db=store_url))
        bench = Bench(store)

        async def body(work: Work) -> None:
            runs.append(work.task.name)
            await asyncio.sleep(0.05)

        bench.executor("count", body)
        limits = msgspec.structs.replace(QUICK, lease_seconds=1, concurrency=3)
        apps.append(
            App(
                store,
                settings=Settings(db=store_url),
                clock=ShiftedClock(shift),
                limits=limits,
                executors=bench.executors,
            )
        )
    try:
        document = [task(f"t{number}", "count") for number in range(40)]
        document = [{"name": "root", "dependencies": [one["name"] for one in document]}, *document]
        root_id = await apps[0].begin(document)
        async with asyncio.timeout(30):
            await asyncio.gather(*(app.wait(root_id) for app in apps))
        flow = await apps[0].flow_of(root_id)
        events = await apps[0].events(EventFilter(tree=root_id))
    finally:
        for app in apps:
            await app.close(grace_seconds=0)

    assert sorted(runs) == sorted(f"t{number}" for number in range(40))
    assert set(statuses(flow).values()) == {"completed"}
    assert EventType.TASK_RELEASED not in {event.type for event in events}


async def test_a_retry_delay_does_not_last_an_hour_longer_when_the_clock_is_put_back(
    two_stores: Callable[[Clock | None], Awaitable[TaskStore]], caplog: pytest.LogCaptureFixture
) -> None:
    clock = ShiftedClock()
    bench = Bench(await two_stores(clock))
    failed = asyncio.Event()

    async def fail_once(work: Work) -> None:
        if work.attempt == 1:
            failed.set()
            raise ExecutionFailed("not yet")

    bench.executor("fail", fail_once)
    retry = {"retry": {"attempts": 2, "delay": 1, "jitter": 0}}
    flow = await bench.submit(task("a", "fail", params=retry))
    engine = await bench.engine()
    running = asyncio.create_task(engine.run(flow.root.id))
    await asyncio.wait_for(failed.wait(), 20)
    await until(lambda: _is_pending(bench, flow.root.id))
    await asyncio.sleep(2 * QUICK.heartbeat_seconds)
    with caplog.at_level(logging.WARNING):
        clock.shift = -HOUR
        async with asyncio.timeout(20):
            await running
    await bench.close()

    assert (await bench.read(flow)).root.status is Status.COMPLETED
    assert "clock_jumped" in actions(caplog.records)
    events = await bench.store.events(EventFilter(task=flow.root.id), owner=EVERYONE)
    assert [event.facts.get("reason") for event in events if event.type is EventType.TASK_RETRIED][1:] == [
        "the clock was put back; the delay starts again"
    ]


async def _is_pending(bench: Bench, task_id: Any) -> bool:
    return (await bench.store.get(task_id, owner=EVERYONE)).status is Status.PENDING


async def test_a_retry_delay_is_shortened_by_an_engine_that_starts_after_the_clock_was_put_back(
    two_stores: Callable[[Clock | None], Awaitable[TaskStore]],
) -> None:
    clock = ManualClock(NOON)
    store = await two_stores(clock)
    bench = Bench(store)
    flow = await bench.submit("a")
    await store.add_worker("gone", lease_seconds=10)
    _, outlook = await store.advance([], ClaimRequest(flows=[flow.root.id], worker="gone", slots=1))
    assert not isinstance(outlook, Exception)
    failed = AttemptResult(outlook.claimed[0].claim, Failed(NOON, "not yet"), timedelta(seconds=1))
    await store.advance([failed], ClaimRequest(flows=[], worker="gone", slots=0))
    clock.set(NOON - HOUR)
    engine = await bench.engine()
    clock.advance(timedelta(seconds=2))

    async with asyncio.timeout(20):
        await engine.run(flow.root.id)
    await bench.close()
    assert (await bench.read(flow)).root.status is Status.COMPLETED


async def test_a_dead_worker_is_not_waited_for_an_hour_longer_when_the_clock_is_put_back(
    two_stores: Callable[[Clock | None], Awaitable[TaskStore]],
) -> None:
    clock = ManualClock(NOON)
    store = await two_stores(clock)
    flow = await store.operate(SubmitFlow(a_flow("root"), NOON, is_run=True), owner=EVERYONE)
    await store.add_worker("dead", lease_seconds=10)
    await store.advance([], ClaimRequest(flows=[flow.root.id], worker="dead", slots=1))
    clock.set(NOON - HOUR)

    await store.restart_delays(lease_seconds=15)
    assert await store.recover(expired_at=clock.now()) == 0
    clock.advance(timedelta(seconds=16))
    assert await store.recover(expired_at=clock.now()) == 1


async def test_a_clock_that_jumps_forward_does_not_make_others_look_dead(
    two_stores: Callable[[Clock | None], Awaitable[TaskStore]],
) -> None:
    clock = ShiftedClock()
    bench = Bench(await two_stores(clock))
    starts: list[int] = []
    started, go = asyncio.Event(), asyncio.Event()

    async def wait(work: Work) -> None:
        starts.append(work.attempt)
        started.set()
        await go.wait()

    bench.executor("wait", wait)
    flow = await bench.submit(task("a", "wait"))
    engines = [await bench.engine() for _ in range(3)]
    running = [asyncio.create_task(engine.run(flow.root.id)) for engine in engines]
    await asyncio.wait_for(started.wait(), 20)
    await asyncio.sleep(3 * QUICK.heartbeat_seconds)
    clock.shift = 24 * 365 * HOUR
    await asyncio.sleep(6 * QUICK.heartbeat_seconds)
    go.set()
    async with asyncio.timeout(20):
        await asyncio.gather(*running)
    await bench.close()

    assert starts == [1]


async def test_schedules_fire_again_after_the_clock_was_ten_years_ahead(
    two_stores: Callable[[Clock | None], Awaitable[TaskStore]],
) -> None:
    clock = ManualClock(NOON)
    store = await two_stores(clock)
    flow = await store.operate(SubmitFlow(a_flow({"name": "s", **HOURLY}), NOON), owner=EVERYONE)
    scheduler = Scheduler(store, clock)
    clock.advance(10 * 365 * 24 * HOUR)
    await scheduler.fire_due()
    clock.set(NOON)

    assert await scheduler.replan() == 1
    task_after = await store.get(flow.root.id, owner=EVERYONE)
    assert task_after.next_run_at is not None
    assert task_after.next_run_at <= NOON + HOUR
    assert await scheduler.replan() == 0, "once"
    events = await store.events(EventFilter(task=flow.root.id), owner=EVERYONE)
    assert events[-1].type is EventType.SCHEDULE_REPLANNED


@pytest.mark.parametrize("is_removed", [True, False])
async def test_an_engine_ends_when_its_file_is_removed_or_replaced(tmp_path: Path, is_removed: bool) -> None:
    path = tmp_path / "weft.db"
    bench = Bench(await open_store(Settings(db=str(path))))
    started = asyncio.Event()

    async def hang(work: Work) -> None:
        started.set()
        await asyncio.Event().wait()

    bench.executor("hang", hang)
    flow = await bench.submit(task("a", "hang"))
    engine = await bench.engine()
    running = asyncio.create_task(engine.run(flow.root.id))
    await asyncio.wait_for(started.wait(), 20)
    path.unlink()
    if not is_removed:
        path.write_bytes(b"")
    with pytest.raises(StoreReplaced):
        await asyncio.wait_for(running, 20)
    await bench.store.close()


async def test_an_engine_that_finds_a_newer_schema_ends_what_it_runs_and_claims_nothing_more(
    store_url: str, store: TaskStore
) -> None:
    bench = Bench(store)
    started, go = asyncio.Event(), asyncio.Event()

    async def wait(work: Work) -> None:
        started.set()
        await go.wait()

    bench.executor("wait", wait)
    flow = await bench.submit(task("root", "noop", "a"), task("a", "wait"))
    engine = await bench.engine()
    running = asyncio.create_task(engine.run(flow.root.id))
    serving = asyncio.create_task(engine.serve())
    await asyncio.wait_for(started.wait(), 20)
    await _raise_version(store_url)
    await until(lambda: engine.is_stopping)
    go.set()
    for one in (running, serving):
        with pytest.raises(SchemaTooNew) as raised:
            await asyncio.wait_for(one, 20)
        assert raised.value.exit_code == EXIT_UNAVAILABLE

    assert statuses(await bench.read(flow)) == {"root": "pending", "a": "completed"}
    assert await store.workers() == []


async def _raise_version(store_url: str) -> None:
    if store_url.startswith("postgresql"):
        connection = await asyncpg.connect(store_url)
        await connection.execute("UPDATE weft_schema SET version = version + 1")
        await connection.close()
        return
    if is_memory(store_url):
        access = open_memory(store_url, SystemClock(), must_exist=True)
        access.read_now(_raise_user_version)
        await access.close()
        return
    with sqlite3.connect(store_url) as file:
        _raise_user_version(file)


def _raise_user_version(file: sqlite3.Connection) -> None:
    (version,) = file.execute("PRAGMA user_version").fetchone()
    file.execute(f"PRAGMA user_version = {version + 1}")


async def test_a_process_that_was_frozen_past_its_lease_asks_no_model(store: TaskStore) -> None:
    """It wakes up in the middle of its program, before the timer that cancels its attempts has its turn."""
    runs = RunsBench(store)
    runs.with_handler(lambda payload: "answer")
    task_id = await runs.begin('(deftask ask (x) :instructions "{{x}}") (ask "one")')
    await store.add_worker("w", lease_seconds=3600)
    claim = await store.start(task_id, worker="w", now=store.clock.now(), owner=EVERYONE)
    executor = TemplateExecutor(
        store, lambda _: runs.effects(), clock=store.clock, new_id=new_task_id, concurrency=1
    )

    async def report(progress: float) -> None: ...

    work = Work(
        task=await store.get(task_id, owner=EVERYONE),
        attempt=claim.attempt,
        inputs={},
        dependencies={},
        report=report,
        has_lease=lambda: False,
    )
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(executor.execute(work), 0.2)

    assert not runs.asked


async def test_an_effect_waits_for_a_lease_that_is_renewed_late() -> None:
    has_lease = False
    slots = LeasedSlots(asyncio.Semaphore(1), lambda: has_lease)

    async def enter() -> str:
        async with slots:
            return "entered"

    first, second = asyncio.create_task(enter()), asyncio.create_task(enter())
    await asyncio.sleep(0)
    first.cancel()
    has_lease = True

    assert await asyncio.wait_for(second, 20) == "entered"
    assert first.cancelled()
