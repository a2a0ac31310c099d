"""Stopping an engine, on every store: within the grace time, with nothing lost and nothing left behind."""

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from tests.engine_bench import QUICK, Bench, Stubborn, actions, statuses, task
from tests.faulty_store import FaultyStore
from weft.engine.engine import IDLE_GRACE_SECONDS, Engine
from weft.executors.protocol import Work
from weft.executors.simple import Noop
from weft.store.errors import StoreBusy
from weft.store.protocol import EVERYONE, EventFilter
from weft.tasks.events import EventType
from weft.tasks.record import JsonObject, Status


async def test_stopping_gives_back_what_is_unfinished_and_another_engine_goes_on(bench: Bench) -> None:
    started = asyncio.Event()
    attempts: list[int] = []

    async def hang_once(work: Work) -> None:
        attempts.append(work.attempt)
        started.set()
        if work.attempt == 1:
            await asyncio.Event().wait()

    bench.executor("hang", hang_once)
    flow = await bench.submit(task("a", "hang"), task("b", "noop", "a"))
    first = await bench.engine()
    running = asyncio.create_task(first.run(flow.root.id))
    async with asyncio.timeout(20):
        await started.wait()
        await first.stop(grace_seconds=0)
        await running
        given_back = await bench.read(flow)
        await (await bench.engine()).run(flow.root.id)

    assert given_back.root.status is Status.IN_PROGRESS
    assert attempts == [1, 2]
    assert set(statuses(await bench.read(flow)).values()) == {"completed"}


async def test_stopping_lets_attempts_end_within_the_grace_time(bench: Bench) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    async def wait(work: Work) -> None:
        started.set()
        await go.wait()

    bench.executor("wait", wait)
    flow = await bench.submit(task("a", "wait"), task("b", "noop", "a"))
    engine = await bench.engine()
    running = asyncio.create_task(engine.run(flow.root.id))
    async with asyncio.timeout(20):
        await started.wait()
        stopping = asyncio.create_task(engine.stop(grace_seconds=15))
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(stopping, running)

    assert statuses(await bench.read(flow)) == {"a": "completed", "b": "pending"}


async def test_a_flow_that_ends_as_the_engine_stops_is_over(bench: Bench) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    async def wait(work: Work) -> None:
        started.set()
        await go.wait()

    bench.executor("wait", wait)
    flow = await bench.submit(task("a", "wait"))
    engine = await bench.engine()
    running = asyncio.create_task(engine.run(flow.root.id))
    async with asyncio.timeout(20):
        await started.wait()
        stopping = asyncio.create_task(engine.stop(grace_seconds=15))
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(stopping, running)

    assert statuses(await bench.read(flow)) == {"a": "completed"}
    assert await bench.store.running_flows(owner=EVERYONE) == []


async def test_a_flow_that_can_go_on_stays_marked_to_be_run(bench: Bench) -> None:
    started = asyncio.Event()

    async def hang(work: Work) -> None:
        started.set()
        await asyncio.Event().wait()

    bench.executor("hang", hang)
    flow = await bench.submit(task("a", "hang"))
    engine = await bench.engine()
    running = asyncio.create_task(engine.run(flow.root.id))
    async with asyncio.timeout(20):
        await started.wait()
        await engine.stop(grace_seconds=0)
        await running

    assert await bench.store.running_flows(owner=EVERYONE) == [flow.root.id]


async def test_what_is_claimed_as_the_engine_stops_is_not_begun(bench: Bench) -> None:
    attempts: list[int] = []

    async def note(work: Work) -> None:
        attempts.append(work.attempt)

    bench.executor("note", note)
    flow = await bench.submit(task("a", "note"))
    store = FaultyStore(bench.store)
    engine = Engine(store.as_store, bench.executors, limits=QUICK)
    await engine.__aenter__()
    store.hold_claims()
    running = asyncio.create_task(engine.follow(flow.root.id))
    async with asyncio.timeout(20):
        await store.has_claimed.wait()
        stopping = asyncio.create_task(engine.stop(grace_seconds=15))
        await asyncio.sleep(0)
        store.may_answer.set()
        await asyncio.gather(stopping, running)
        assert attempts == []
        await (await bench.engine(msgspec.structs.replace(QUICK, max_losses=1))).run(flow.root.id)

    assert attempts == [2], "the first attempt was not begun, and counts as no loss"


async def test_an_executor_that_ignores_its_cancellation_does_not_hold_up_stopping(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    stubborn = Stubborn()
    stubborn.register(bench)
    flow = await bench.submit(task("a", "stubborn"))
    engine = await bench.engine()
    running = asyncio.create_task(engine.run(flow.root.id))
    async with asyncio.timeout(20):
        await stubborn.began.wait()
        with caplog.at_level(logging.WARNING):
            await engine.stop(grace_seconds=0)
        await running
        assert actions(caplog.records) == ["attempt_abandoned"]
        assert await bench.store.workers() == []
        stubborn.is_released.set()
        await (await bench.engine()).run(flow.root.id)

    assert (await bench.read(flow)).root.result == {"late": True}


async def test_a_second_stop_may_shorten_the_grace_time(bench: Bench) -> None:
    started = asyncio.Event()

    async def hang(work: Work) -> None:
        started.set()
        await asyncio.Event().wait()

    bench.executor("hang", hang)
    flow = await bench.submit(task("a", "hang"))
    engine = await bench.engine()
    running = asyncio.create_task(engine.run(flow.root.id))
    async with asyncio.timeout(20):
        await started.wait()
        patient = asyncio.create_task(engine.stop(grace_seconds=600))
        await asyncio.sleep(0)
        await engine.stop(grace_seconds=0)
        await asyncio.gather(patient, running)

    assert not engine.is_running


async def test_an_executor_that_fails_because_it_is_called_off_does_not_fail_the_task(bench: Bench) -> None:
    started = asyncio.Event()

    async def complain(work: Work) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionError("interrupted") from None

    bench.executor("complain", complain)
    flow = await bench.submit(task("a", "complain"))
    engine = await bench.engine()
    running = asyncio.create_task(engine.run(flow.root.id))
    async with asyncio.timeout(20):
        await started.wait()
        await engine.stop(grace_seconds=0)
        await running

    assert (await bench.read(flow)).root.status is Status.IN_PROGRESS


async def test_a_store_that_is_busy_while_the_engine_stops_loses_no_result(bench: Bench) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    async def wait(work: Work) -> JsonObject:
        started.set()
        await go.wait()
        return {"paid": "dearly"}

    bench.executor("wait", wait)
    flow = await bench.submit(task("a", "wait"))
    store = FaultyStore(bench.store)
    engine = Engine(store.as_store, bench.executors, limits=QUICK)
    await engine.__aenter__()
    running = asyncio.create_task(engine.follow(flow.root.id))
    async with asyncio.timeout(20):
        await started.wait()
        stopping = asyncio.create_task(engine.stop(grace_seconds=15))
        await asyncio.sleep(0)
        store.fail("advance", StoreBusy("busy"), StoreBusy("busy"), StoreBusy("busy"))
        go.set()
        await asyncio.gather(stopping, running)

    assert store.left("advance") == 0
    assert (await bench.read(flow)).root.result == {"paid": "dearly"}


@pytest.mark.parametrize("seconds", ["soon", property(lambda self: 1 / 0)], ids=["text", "raises"])
async def test_an_executor_that_cannot_say_when_it_lets_go_does_not_hold_up_stopping(
    bench: Bench, seconds: Any
) -> None:
    started: list[str] = []
    both = asyncio.Event()

    class Odd(Noop):
        id = "odd"

        async def execute(self, work: Work) -> JsonObject:
            started.append(work.task.name)
            if len(started) == 2:
                both.set()
            await asyncio.Event().wait()
            return {}

    bench.executors.register(Odd())
    Odd.cancel_grace_seconds = seconds  # type: ignore[attr-defined]
    flow = await bench.submit(task("a", "odd"), task("b", "odd"))
    engine = await bench.engine()
    async with asyncio.timeout(20):
        await engine.join(flow.root.id)
        await both.wait()
        await engine.stop(grace_seconds=0)

    assert statuses(await bench.read(flow)) == {"a": "in_progress", "b": "in_progress"}
    assert await bench.store.workers() == []


async def test_an_attempt_that_takes_its_time_to_end_is_released_and_counts_as_no_loss(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    began = asyncio.Event()

    async def slow_to_end(work: Work) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(IDLE_GRACE_SECONDS + 0.3)  # longer than the engine waits for its store
            raise

    bench.executor("slow", slow_to_end)
    flow = await bench.submit(task("a", "slow"))
    engine = await bench.engine()
    await engine.join(flow.root.id)
    await asyncio.wait_for(began.wait(), 20)
    with caplog.at_level(logging.WARNING):
        await engine.stop(grace_seconds=0.1)
    events = await bench.store.events(EventFilter(task=flow.root.id), owner=EVERYONE)

    assert "stopped_without_store" not in actions(caplog.records)
    assert events[-1].type is EventType.TASK_RELEASED
    assert await bench.store.workers() == []


async def _stop_with_a_result(bench: Bench, store: FaultyStore, advance: Any) -> tuple[Engine, Any]:
    """Begin to stop an engine that has a result to write, to a store that answers with `advance`."""
    started, go = asyncio.Event(), asyncio.Event()

    async def wait(work: Work) -> JsonObject:
        started.set()
        await go.wait()
        return {"paid": "dearly"}

    bench.executor("wait", wait)
    flow = await bench.submit(task("a", "wait"))
    engine = Engine(store.as_store, bench.executors, limits=QUICK)
    await engine.__aenter__()
    await engine.join(flow.root.id)
    await asyncio.wait_for(started.wait(), 20)
    store.advance = advance  # type: ignore[method-assign]
    go.set()
    return engine, asyncio.create_task(engine.stop(grace_seconds=0.1))


async def test_a_store_that_fails_every_call_does_not_hold_up_stopping(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(endings: Any, wanted: Any) -> Any:
        raise StoreBusy("busy")

    with caplog.at_level(logging.WARNING):
        _, stopping = await _stop_with_a_result(bench, FaultyStore(bench.store), refuse)
        await asyncio.wait_for(stopping, IDLE_GRACE_SECONDS + 5)

    assert "stopped_without_store" in actions(caplog.records)


async def test_a_second_stop_may_come_when_the_first_has_given_up_the_store(bench: Bench) -> None:
    given_up = asyncio.Event()

    async def hang(endings: Any, wanted: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()
            await asyncio.sleep(0.1)  # a connection takes a moment to be closed

    engine, stopping = await _stop_with_a_result(bench, FaultyStore(bench.store), hang)
    async with asyncio.timeout(20):
        await given_up.wait()
        await engine.stop(grace_seconds=0)
        await stopping

    assert not engine.is_running
