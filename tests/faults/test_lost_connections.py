"""Connections and servers that are lost while runs and flows are in progress: everything completes, once."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from tests.command_line import wait_for
from tests.engine_bench import QUICK, Bench, task
from tests.faults.killable_postgresql import KillablePostgresql
from tests.faults.proxy import End, Proxy, proxy_to
from tests.postgresql_server import fresh_schema
from tests.runs_bench import RunsBench
from weft.app.app import App
from weft.app.wiring import open_store
from weft.config.settings import Settings
from weft.executors.protocol import Work
from weft.store.protocol import EVERYONE, EventFilter, TaskFilter, TaskStore
from weft.tasks.record import Status
from weft.testing.in_memory_effects import InMemoryEffects

ASK = '(deftask ask (x) :instructions "{{x}}")'
PROGRAM = f"""{ASK}
(template both (a b) (list (ask a) (ask b)))
(define begun (ask (string-append name " one")))
(define many (map ask (list (string-append name " m1") (string-append name " m2"))))
(script :argv ("echo" "listed"))
(both (string-append name " x") (string-append name " y"))
"""
CALLS_OF_A_RUN = 5

Outage = Callable[[], Awaitable[object]]


class Interrupted(InMemoryEffects):
    """Models whose n-th call, over all runs, happens during an outage."""

    def __init__(self, runs: RunsBench, number: int, outage: Outage) -> None:
        def reply(call: Any) -> str:
            runs.asked[call.prompt] += 1
            return f"answer to {call.prompt}"

        super().__init__(reply, scripts=lambda run: " ".join(run.argv))
        self._runs = runs
        self._number = number
        self._outage = outage

    async def call_model(self, step: Any, call: Any, account: Any = None) -> Any:
        response = await super().call_model(step, call)
        if self._runs.asked.total() == self._number:
            await self._outage()
        return response


@pytest.fixture
async def store(proxy: Proxy) -> AsyncIterator[TaskStore]:
    opened = await open_store(Settings(db=f"{proxy.url}&application_name=lost"))
    yield opened
    await opened.close()


async def assert_runs_complete(store: TaskStore, outage: Outage, *, at: int, count: int) -> None:
    """Run programs at the same time, with an outage during one of their calls."""
    runs = RunsBench(store)
    runs.effects = lambda: Interrupted(runs, at, outage)
    begun = [await runs.begin(PROGRAM, reuse=False, name=f"run {number}") for number in range(count)]
    outcomes = await asyncio.gather(*map(runs.go_on, begun))

    assert [outcome.status for outcome in outcomes] == [Status.COMPLETED] * count, outcomes
    assert set(runs.asked.values()) == {1}, runs.asked
    assert runs.asked.total() == count * CALLS_OF_A_RUN
    open_tasks = await store.list(TaskFilter(status=Status.IN_PROGRESS), owner=EVERYONE)
    assert [one.name for one in open_tasks.tasks] == []


@pytest.mark.parametrize("at", [1, 17, 40])
async def test_eight_runs_complete_when_all_backends_are_terminated_once(
    store: TaskStore, admin: asyncpg.Connection, at: int
) -> None:
    async def terminate() -> None:
        ended = await admin.fetch(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'lost'"
        )
        assert ended

    await assert_runs_complete(store, terminate, at=at, count=8)


@pytest.mark.parametrize("fault", ["reset", "half-close", "refuse", "blackhole", "delay"])
async def test_runs_complete_when_the_network_fails_for_a_moment(
    store: TaskStore, proxy: Proxy, fault: str
) -> None:
    faults: dict[str, Callable[[], None]] = {
        "reset": proxy.reset,
        "half-close": lambda: proxy.half_close("to_client"),
        "refuse": proxy.refuse,
        "blackhole": proxy.blackhole,
        "delay": lambda: proxy.delay(0.1),
    }

    async def fail() -> None:
        faults[fault]()
        # Other runs meet the fault before it ends.
        asyncio.get_running_loop().call_later(0.7, proxy.heal)

    await assert_runs_complete(store, fail, at=5, count=4)


@pytest.mark.parametrize("then", ["reset", "silence"])
async def test_a_run_completes_whichever_query_is_cut(impatient: TaskStore, proxy: Proxy, then: End) -> None:
    runs = RunsBench(impatient)
    await runs.run(PROGRAM, reuse=False, name="whole")  # prepares statements, so that each is one query later
    for number in range(2, 50, 6):
        runs.asked.clear()
        root_id = await runs.begin(PROGRAM, reuse=False, name=f"cut {number}")
        proxy.cut_next_queries(after=number, then=then)
        async with asyncio.timeout(60):
            outcome = await runs.go_on(root_id)
        proxy.heal()

        assert outcome.status is Status.COMPLETED, (number, outcome)
        assert set(runs.asked.values()) == {1}, (number, runs.asked)
        assert {status for _, _, status in await runs.tree(outcome.root_id)} == {"completed"}, number
    assert proxy.cut_queries >= 5


async def test_a_flow_completes_and_performs_every_task_once_whichever_query_is_cut(
    store: TaskStore, proxy: Proxy
) -> None:
    performed: Counter[str] = Counter()

    async def note(work: Work) -> None:
        performed[work.task.name] += 1

    bench = Bench(store)
    bench.executor("note", note)
    app = App(store, settings=Settings(db=proxy.url), limits=QUICK, executors=bench.executors)
    document = [task("root", "note"), *(task(f"t{number}", "note", "root") for number in range(5))]
    for number in range(0, 40, 4):
        performed.clear()
        root_id = await app.begin(document)
        proxy.cut_next_queries(after=number)
        await app.wait(root_id)
        await app.stop()
        proxy.heal()

        assert (await app.summary(root_id)).counts == {"completed": 6}, number
        assert set(performed.values()) == {1}, (number, performed)
    assert proxy.cut_queries >= 3


@pytest.mark.parametrize("method", ["get", "flow_of", "summary", "list", "events", "running_flows"])
async def test_a_read_whose_connection_was_reset_while_idle_is_answered(
    store: TaskStore, proxy: Proxy, method: str
) -> None:
    app = App(store, settings=Settings(db=proxy.url))
    flow = await app.submit([{"name": "kept"}])
    reads: dict[str, Callable[[], Awaitable[object]]] = {
        "get": lambda: app.get(flow.root.id),
        "flow_of": lambda: app.flow_of(flow.root.id),
        "summary": lambda: app.summary(flow.root.id),
        "list": lambda: app.list(TaskFilter()),
        "events": lambda: app.events(EventFilter(tree=flow.root.id)),
        "running_flows": lambda: store.running_flows(owner=EVERYONE),
    }
    await reads[method]()
    proxy.reset()

    assert await reads[method]() is not None


async def test_a_flow_that_is_over_is_told_although_the_connection_is_lost_at_its_end(
    store: TaskStore, proxy: Proxy
) -> None:
    """The last thing a process asks is whether the store is still the one that it opened."""
    await store.check()
    proxy.cut_next_queries()
    await store.check()

    assert proxy.cut_queries == 1


# A server that is killed


@pytest.fixture
async def killed_store(killable_server: KillablePostgresql) -> AsyncIterator[TaskStore]:
    """Yield an empty store in a server that the test may kill."""
    url = await asyncio.to_thread(fresh_schema, killable_server.url)
    opened = await open_store(Settings(db=url))
    yield opened
    await opened.close()


async def test_runs_complete_when_the_server_is_killed_and_started_again(
    killed_store: TaskStore, killable_server: KillablePostgresql
) -> None:
    async def kill_and_start() -> None:
        await asyncio.to_thread(killable_server.kill)
        await asyncio.to_thread(killable_server.start)

    await assert_runs_complete(killed_store, kill_and_start, at=12, count=6)


@pytest.mark.parametrize("later", [0, 100], ids=["its number is free", "its number is another's"])
async def test_a_write_is_repeated_when_a_crash_has_undone_its_commit(
    killable_server: KillablePostgresql, later: int
) -> None:
    url = await asyncio.to_thread(fresh_schema, killable_server.url)
    with proxy_to(url) as proxy:
        store = await open_store(Settings(db=proxy.url))
        app = App(store, settings=Settings(db=proxy.url))
        proxy.cut_next_queries(containing=b"COMMIT\0", then="silence")
        submitting = asyncio.create_task(app.submit([{"name": "submitted"}]))
        await asyncio.to_thread(wait_for, lambda: proxy.cut_queries == 1)
        proxy.refuse()
        await asyncio.to_thread(killable_server.kill)
        await asyncio.to_thread(killable_server.start)
        # The server has forgotten the transaction, and gives its number to the next one.
        admin = await asyncpg.connect(url)
        for _ in range(later):
            await admin.execute("SELECT pg_current_xact_id()")
        await admin.close()
        proxy.heal()
        async with asyncio.timeout(60):
            flow = await submitting

            assert (await app.get(flow.root.id)).name == "submitted"
            await store.close()


async def test_a_flow_completes_when_the_server_is_killed_and_started_again(
    killed_store: TaskStore, killable_server: KillablePostgresql
) -> None:
    performed: Counter[str] = Counter()

    async def note(work: Work) -> None:
        performed[work.task.name] += 1
        if performed.total() == 25:
            await asyncio.to_thread(killable_server.kill)
            await asyncio.to_thread(killable_server.start)

    bench = Bench(killed_store)
    bench.executor("note", note)
    layers = [task(f"t{n}", "note", *([f"t{n - 5}"] if n >= 5 else ["root"])) for n in range(60)]
    flow = await bench.run(task("root", "note"), *layers)
    await bench.close()

    assert {one.status for one in flow} == {Status.COMPLETED}
    assert set(performed.values()) == {1}, performed
