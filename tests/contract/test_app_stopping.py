"""An app that is stopped, and asked to run flows again, on every store."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.engine_bench import QUICK, Bench, task
from weft.app.app import App
from weft.config.settings import Settings
from weft.executors.protocol import Work


class Gate:
    """An executor that begins, and ends when it may."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.may_end = asyncio.Event()

    async def pass_through(self, work: Work) -> None:
        self.began.set()
        await self.may_end.wait()


@pytest.fixture
def gate(bench: Bench) -> Gate:
    made = Gate()
    bench.executor("gate", made.pass_through)
    return made


@pytest.fixture
async def app(bench: Bench) -> AsyncIterator[App]:
    made = App(bench.store, settings=Settings(db="unused"), limits=QUICK, executors=bench.executors)
    yield made
    await made.stop(grace_seconds=0)


async def test_an_app_runs_again_after_it_was_stopped(app: App) -> None:
    async with asyncio.timeout(20):
        await app.run([{"name": "a"}])
        await app.stop()
        summary = await app.run([{"name": "b"}])

    assert summary.counts == {"completed": 1}


async def test_a_run_while_the_app_stops_waits_for_that_and_then_runs(app: App, gate: Gate) -> None:
    async with asyncio.timeout(20):
        first = asyncio.create_task(app.run([task("a", "gate")]))
        await gate.began.wait()
        stopping = asyncio.create_task(app.stop(grace_seconds=600))
        await asyncio.sleep(0)
        second = asyncio.create_task(app.run([{"name": "b"}]))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(second), timeout=0.1)
        gate.may_end.set()
        await stopping
        summaries = await first, await second

    assert [summary.counts for summary in summaries] == [{"completed": 1}, {"completed": 1}]


async def test_a_flow_begun_after_the_app_was_stopped_is_run_by_who_waits_for_it(app: App) -> None:
    async with asyncio.timeout(20):
        await app.run([{"name": "a"}])
        await app.stop()
        root_id = await app.begin([{"name": "b"}])
        await app.wait(root_id)

    assert (await app.summary(root_id)).counts == {"completed": 1}


async def test_a_wait_for_a_flow_begun_before_the_app_was_stopped_returns(app: App) -> None:
    async with asyncio.timeout(20):
        root_id = await app.begin([{"name": "a"}])
        await app.stop()
        await app.wait(root_id)

    assert (await app.summary(root_id)).counts == {"pending": 1}


async def test_an_app_serves_again_after_it_was_stopped(app: App, gate: Gate) -> None:
    async with asyncio.timeout(20):
        await app.run([{"name": "a"}])
        await app.stop()
        root_id = await app.begin([task("b", "gate")])
        await app.stop()
        serving = asyncio.create_task(app.serve())
        await gate.began.wait()
        gate.may_end.set()
        await app.stop()
        await serving

    assert (await app.summary(root_id)).counts == {"completed": 1}
