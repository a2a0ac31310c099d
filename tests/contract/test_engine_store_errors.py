"""What an engine makes of a store's errors: waits for those that pass, ends in good order with the others."""

import asyncio
import logging
from pathlib import Path

import pytest

from tests.builders import NOON
from tests.engine_bench import QUICK, Bench, actions, statuses, task
from tests.faulty_store import FaultyStore
from tests.runs_bench import RunsBench
from weft.app.app import App
from weft.config.settings import Settings
from weft.engine.engine import Engine
from weft.executors.protocol import Work
from weft.store.errors import StoreBusy, StoreFull, StoreReplaced
from weft.store.protocol import EVERYONE, TaskStore
from weft.tasks.record import Status


@pytest.fixture
def faulty(bench: Bench) -> FaultyStore:
    """Replace the bench's store by one that raises errors."""
    store = FaultyStore(bench.store)
    bench.store = store.as_store
    return store


async def test_a_busy_store_fails_no_task_that_reports_progress(
    bench: Bench, faulty: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    async def half(work: Work) -> None:
        await work.report(0.5)

    bench.executor("half", half)
    faulty.fail("report", StoreBusy("busy"))
    with caplog.at_level(logging.WARNING):
        flow = await bench.run(task("a", "half"))

    assert flow.root.status is Status.COMPLETED
    assert actions(caplog.records) == ["store_transient_error"]


async def test_a_busy_store_is_waited_for_when_dependencies_are_read(
    bench: Bench, faulty: FaultyStore
) -> None:
    seen: list[int] = []

    async def see(work: Work) -> None:
        seen.append(len(work.dependencies))

    bench.executor("see", see)
    faulty.fail("get_many", StoreBusy("busy"), StoreBusy("busy"))
    flow = await bench.run("a", task("b", "see", "a"))

    assert statuses(flow) == {"a": "completed", "b": "completed"}
    assert seen == [1]


async def test_the_time_limit_counts_while_dependencies_cannot_be_read(
    bench: Bench, faulty: FaultyStore
) -> None:
    faulty.fail("get_many", *[StoreBusy("busy")] * 10_000)
    bench.executor("see", lambda work: asyncio.sleep(0))
    flow = await bench.run("a", task("b", "see", "a", params={"timeout_seconds": 0.1}))

    assert {one.error for one in flow} == {None, "timed out after 0.1 s"}


async def test_a_busy_store_delays_the_end_of_a_flow(bench: Bench, faulty: FaultyStore) -> None:
    faulty.fail("end_flow", StoreBusy("busy"), StoreBusy("busy"))
    flow = await bench.run("a")

    assert flow.root.status is Status.COMPLETED
    assert faulty.left("end_flow") == 0
    assert await bench.store.running_flows(owner=EVERYONE) == []


async def test_a_busy_store_does_not_end_serving(bench: Bench, faulty: FaultyStore) -> None:
    engine = await bench.engine()
    faulty.fail("running_flows", StoreBusy("busy"), StoreBusy("busy"))
    serving = asyncio.create_task(engine.serve())
    flow = await bench.submit("root")
    async with asyncio.timeout(20):
        while not (await bench.read(flow)).root.status.is_terminal:  # noqa: ASYNC110 - the store has no event
            await asyncio.sleep(0.01)
        await engine.stop()
        await serving

    assert faulty.left("running_flows") == 0


async def test_an_error_that_does_not_pass_ends_the_engine_and_leaves_the_tasks_to_others(
    bench: Bench, faulty: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    is_hanging = True
    started = asyncio.Event()

    async def hang(work: Work) -> None:
        started.set()
        if is_hanging:
            await asyncio.Event().wait()

    bench.executor("hang", hang)
    flow = await bench.submit(task("a", "hang"))
    engine = await bench.engine()
    running = asyncio.create_task(engine.run(flow.root.id))
    async with asyncio.timeout(20):
        await started.wait()
        with caplog.at_level(logging.ERROR):
            faulty.fail("advance", StoreFull("the disk is full"))
            with pytest.raises(StoreFull):
                await running
        assert actions(caplog.records) == ["engine_failed"]
        assert not engine.is_running
        assert await bench.store.workers() == [], "no heartbeat keeps its tasks from others"
        with pytest.raises(StoreFull):
            await engine.join(flow.root.id)
        is_hanging = False
        await (await bench.engine()).run(flow.root.id)

    assert (await bench.read(flow)).root.status is Status.COMPLETED


async def test_an_app_runs_again_after_its_engine_failed(bench: Bench, faulty: FaultyStore) -> None:
    app = App(bench.store, settings=Settings(db="unused"), limits=QUICK, executors=bench.executors)
    faulty.fail("advance", StoreFull("the disk is full"))
    async with asyncio.timeout(20):
        with pytest.raises(StoreFull):
            await app.run([{"name": "a"}])
        summary = await app.run([{"name": "b"}])
        await app.stop()

    assert summary.counts == {"completed": 1}


async def test_an_ending_is_settled_though_the_claim_beside_it_failed(
    bench: Bench, faulty: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    faulty.fail_claims(StoreBusy("busy"))
    with caplog.at_level(logging.WARNING):
        flow = await bench.run("a")

    assert flow.root.status is Status.COMPLETED
    assert actions(caplog.records) == ["store_transient_error"], "no late result is dropped"


async def test_a_claim_that_never_reached_the_engine_is_given_back(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    engine: Engine = await bench.engine()
    flow = await bench.submit("a")
    (worker,) = await bench.store.workers()
    await bench.store.start(flow.root.id, worker=worker, now=NOON, owner=EVERYONE)

    async with asyncio.timeout(20):
        with caplog.at_level(logging.WARNING):
            await engine.run(flow.root.id)

    assert (await bench.read(flow)).root.status is Status.COMPLETED
    assert actions(caplog.records) == ["unknown_claim"]


async def test_a_full_disk_fails_no_run_whose_step_could_not_be_stored(store: TaskStore) -> None:
    runs = RunsBench(store)
    faulty = FaultyStore(store)
    root_id = await runs.begin('(deftask ask (x) :instructions "{{x}}") (ask "one")')
    faulty.fail("write_steps", StoreFull("the disk is full"))
    with pytest.raises(StoreFull):
        await runs.go_on(root_id, faulty.as_store)

    assert (await store.get(root_id, owner=EVERYONE)).status is Status.IN_PROGRESS
    assert (await runs.go_on(root_id)).status is Status.COMPLETED


async def test_a_flow_whose_file_is_gone_when_it_ends_has_not_succeeded(tmp_path: Path) -> None:
    path = tmp_path / "weft.db"
    async with await App.open(path) as app:
        app.executors.executor("remove")(lambda inputs: path.unlink())
        with pytest.raises(StoreReplaced):
            await app.run([task("a", "remove")])
