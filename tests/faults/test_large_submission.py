"""A submission so large that it takes longer than a lease, while others work."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Process
from tests.faults.processes import weft_process
from weft.app import App
from weft.ids import TaskId
from weft.store.protocol import EventFilter
from weft.tasks.events import Event

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
    while count(await events_of(app, root_id), "task.started") < wanted:
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
    assert count(events, "task.given_back") == 0, "attempts were lost"
    starts = Counter(event.task_id for event in events if event.type.value == "task.started")
    assert set(starts.values()) == {1}
    assert not [log.name for log in logs if "taken for dead" in log.read_text()]


@pytest.mark.slow
async def test_three_workers_lose_no_attempt_while_a_million_tasks_are_submitted(
    app: App, direct_url: str, tmp_path: Path
) -> None:
    await assert_no_attempt_is_lost(app, direct_url, tmp_path, 100_000)
