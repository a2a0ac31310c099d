"""A submission so large that it takes longer than a lease, while others work."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from tests.command_line import Process
from tests.engine_bench import QUICK, actions, task
from tests.faults.held_writes import hold_up_writes, until_it_waits_for
from tests.faults.processes import weft_process
from weft.app.app import App
from weft.app.wiring import open_store
from weft.config.settings import Settings
from weft.engine.engine import Engine
from weft.executors.builtin import built_in_registry
from weft.executors.protocol import Work
from weft.ids import TaskId
from weft.store.protocol import EventFilter
from weft.tasks.events import Event
from weft.tasks.record import JsonObject

LEASE_SECONDS = 5
WORKERS = 3


@pytest.fixture
async def app(direct_url: str) -> AsyncIterator[App]:
    async with await App.open(direct_url) as opened:
        yield opened


def a_wide_document(size: int) -> list[dict[str, Any]]:
    tasks = ({"name": f"t{number}", "schemas": {"method": "noop"}} for number in range(size - 1))
    return [{"name": "large"}, *tasks]


async def events_of(app: App, root_id: TaskId) -> list[Event]:
    return list(await app.events(EventFilter(tree=root_id, limit=1_000_000)))


def count(events: list[Event], kind: str) -> int:
    return sum(event.type.value == kind for event in events)


async def until_started(app: App, root_id: TaskId, wanted: int) -> None:
    while count(await events_of(app, root_id), "task.started") < wanted:  # noqa: ASYNC110 - in other processes
        await asyncio.sleep(0.2)


async def assert_no_attempt_is_lost(app: App, direct_url: str, folder: Path, size: int) -> None:
    sleeps = [
        {
            "name": f"s{number}",
            "schemas": {"method": "sleep"},
            "inputs": {"seconds": 1.0},
            "dependencies": ["root"],
        }
        for number in range(20_000)
    ]
    root_id = await app.begin([{"name": "root"}, *sleeps])
    document = a_wide_document(size)
    with ExitStack() as stack:
        processes: list[Process] = []
        logs = [folder / f"worker {number}" for number in range(WORKERS)]
        for log in logs:
            stderr = stack.enter_context(log.open("wb"))
            serving = weft_process(
                "serve",
                "--no-http",
                "--concurrency",
                "5",
                db=direct_url,
                stderr=stderr,
                environment={"WEFT_LEASE_SECONDS": str(LEASE_SECONDS)},
            )
            processes.append(stack.enter_context(serving))
        await until_started(app, root_id, 30)
        flow = await app.submit(document)
        before = count(await events_of(app, root_id), "task.started")
        await until_started(app, root_id, before + 30)  # they still work afterwards
        events = await events_of(app, root_id)

        assert [process.poll() for process in processes] == [None] * WORKERS
    assert len(flow) == size
    assert count(events, "task.released") == 0, "attempts were lost"
    starts = Counter(event.task_id for event in events if event.type.value == "task.started")
    assert set(starts.values()) == {1}
    assert not [log.name for log in logs if "taken for dead" in log.read_text()]


@pytest.mark.slow
async def test_three_workers_lose_no_attempt_while_a_million_tasks_are_submitted(
    app: App, direct_url: str, tmp_path: Path
) -> None:
    await assert_no_attempt_is_lost(app, direct_url, tmp_path, 1_000_000)


async def test_engines_keep_their_leases_while_somebody_writes_for_longer_than_a_lease(
    app: App, direct_url: str, admin: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    attempts: Counter[str] = Counter()
    may_end = asyncio.Event()

    async def hold(inputs: JsonObject, work: Work) -> None:
        attempts[work.task.name] += 1
        await may_end.wait()

    executors = built_in_registry()
    executors.executor("hold")(hold)
    root_id = await app.begin([task("root", "noop"), *(task(f"t{n}", "hold", "root") for n in range(6))])
    limits = msgspec.structs.replace(QUICK, concurrency=2, lease_seconds=1.0)
    async with AsyncExitStack() as stack:

        async def follow() -> None:
            store = await open_store(Settings(db=direct_url))
            stack.push_async_callback(store.close)
            engine = await stack.enter_async_context(Engine(store, executors, limits=limits))
            await engine.follow(root_id)

        following = [asyncio.create_task(follow()) for _ in range(WORKERS)]
        while attempts.total() < 2 * WORKERS:  # noqa: ASYNC110 - or until the engines fail
            await asyncio.sleep(0.01)
        await hold_up_writes(admin)
        writing = asyncio.create_task(app.submit([{"name": "large"}]))
        await until_it_waits_for(admin, direct_url)
        await admin.execute("SELECT pg_sleep(2.5)")  # so long the submission holds the writer lock
        await admin.execute("ROLLBACK")
        await writing
        may_end.set()
        async with asyncio.timeout(30):
            await asyncio.gather(*following)

    assert set(attempts.values()) == {1}, attempts
    assert "worker_lost" not in actions(caplog.records)
    assert (await app.summary(root_id)).counts == {"completed": 7}
