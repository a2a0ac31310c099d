"""Processes of one store whose clocks differ: leases hold, and no task runs twice."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Process, weft
from tests.engine_bench import QUICK, task
from tests.faults.processes import a_traced_task, traces, weft_process
from weft.app import App
from weft.engine.engine import Engine
from weft.executors.built_in import built_in_registry
from weft.executors.protocol import ExecutionFailed, Work
from weft.executors.registry import ExecutorRegistry
from weft.ids import TaskId
from weft.settings import Settings
from weft.store.protocol import EventFilter
from weft.store_opening import open_store
from weft.tasks.events import EventType
from weft.tasks.record import JsonObject


class SkewedClock:
    """The machine's clock, wrong by some time."""

    def __init__(self, offset: timedelta) -> None:
        self._offset = offset

    def now(self) -> datetime:
        return datetime.now(UTC) + self._offset


def run_with_clocks(db: str, root_id: str, *offsets: float) -> list[tuple[int, str]]:
    """Run a flow in processes whose clocks are that wrong; the exit code and the errors of each."""
    arguments = ("flow", "run", root_id, "--concurrency", "2")
    with ExitStack() as stack:
        processes: list[Process] = [
            stack.enter_context(weft_process(*arguments, db=db, clock_offset_seconds=offset))
            for offset in offsets
        ]
        errors = [process.communicate(timeout=120)[1].decode() for process in processes]
    return [(process.returncode, err) for process, err in zip(processes, errors, strict=True)]


async def events_of(db: str, root_id: str) -> Counter[EventType]:
    async with await App.open(db) as app:
        events = await app.events(EventFilter(tree=TaskId(root_id), limit=100_000))
    return Counter(event.type for event in events)


def submitted(db: str, document: list[dict[str, Any]]) -> str:
    ran = weft("flow", "submit", "-", "--json", db=db, stdin=json.dumps(document))
    return str(ran.json["root_id"])


@pytest.mark.parametrize("offset", [30.0, 3600.0], ids=["30 s", "an hour"])
def test_no_task_runs_twice_when_the_clocks_of_two_processes_differ(
    direct_url: str, tmp_path: Path, offset: float
) -> None:
    trace = tmp_path / "trace"
    names = [f"t{number}" for number in range(8)]
    root_id = submitted(
        direct_url,
        [
            {"name": "root"},
            *(a_traced_task(name, trace, seconds=1.2, dependencies=["root"]) for name in names),
        ],
    )
    ran = run_with_clocks(direct_url, root_id, 0.0, offset)

    assert [code for code, _ in ran] == [0, 0], ran
    performers = {(name, pid) for name, pid in traces(trace)}
    assert sorted(name for name, _ in performers) == names, "a task ran in both processes"
    assert "taken for dead" not in "".join(err for _, err in ran), "a lease was lost"
    counts = asyncio.run(events_of(direct_url, root_id))
    assert counts[EventType.TASK_STARTED] == len(names) + 1
    assert counts[EventType.TASK_COMPLETED] == len(names) + 1
    assert EventType.TASK_GIVEN_BACK not in counts


MakeEngine = Callable[[ExecutorRegistry, timedelta], Awaitable[Engine]]


@pytest.fixture
async def engine(direct_url: str) -> AsyncIterator[MakeEngine]:
    """A way to start engines on stores of their own, with clocks that are wrong by some time."""
    async with AsyncExitStack() as stack:

        async def start(executors: ExecutorRegistry, offset: timedelta) -> Engine:
            store = await open_store(Settings(db=direct_url))
            stack.push_async_callback(store.close)
            made = Engine(store, executors, limits=QUICK, clock=SkewedClock(offset))
            return await stack.enter_async_context(made)

        yield start


async def test_a_process_whose_clock_is_ahead_leaves_to_others_what_only_they_can_perform(
    direct_url: str, engine: MakeEngine
) -> None:
    performed: Counter[str] = Counter()

    async def note(inputs: JsonObject, work: Work) -> None:
        performed[work.task.name] += 1
        await asyncio.sleep(0.2)  # it takes several heartbeats

    knowing = built_in_registry()
    knowing.executor("rare")(note)
    first = await engine(knowing, timedelta(0))
    ahead = await engine(built_in_registry(), timedelta(hours=1))
    async with await App.open(direct_url) as app:
        rare = [task(f"t{number}", "rare", "root") for number in range(5)]
        root_id = await app.begin([task("root", "noop"), *rare])
        async with asyncio.timeout(30):
            await asyncio.gather(ahead.follow(root_id), first.follow(root_id))
        flow = await app.flow_of(root_id)

    assert {one.status.value for one in flow} == {"completed"}, [one.error for one in flow]
    assert set(performed.values()) == {1}, performed


async def test_a_retry_is_due_after_its_delay_when_the_clock_of_who_failed_was_ahead(
    direct_url: str, engine: MakeEngine
) -> None:
    has_failed = asyncio.Event()

    async def fail_once(inputs: JsonObject, work: Work) -> None:
        if work.attempt == 1:
            has_failed.set()
            raise ExecutionFailed("it broke")

    executors = built_in_registry()
    executors.executor("fragile")(fail_once)
    ahead = await engine(executors, timedelta(hours=1))
    async with await App.open(direct_url) as app:
        root_id = await app.begin([task("root", "fragile", params={"retry": {"attempts": 2, "delay": 0.5}})])
        await ahead.join(root_id)
        await has_failed.wait()
        await ahead.stop()
        right = await engine(executors, timedelta(0))
        async with asyncio.timeout(10):
            await right.follow(root_id)

        assert (await app.get(root_id)).status.value == "completed"
