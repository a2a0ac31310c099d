"""The k-th call of the store fails, hangs or loses its reply: whichever k, nothing is lost or repeated."""

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest

from tests.postgresql_server import fresh_schema
from tests.simulation.invariants import flow_violations
from tests.simulation.processes import MachineClock
from tests.simulation.work import HEAD, Effects, IsStored, Model
from tests.virtual_time import run_virtually
from weft.app.app import App
from weft.app.programs import RunOptions, load_program
from weft.clock import SystemClock
from weft.config.settings import Settings
from weft.engine.limits import EngineLimits
from weft.executors.builtin import built_in_registry
from weft.executors.protocol import Work
from weft.fault_points import StoreFault, plan_store_fault
from weft.ids import TaskId
from weft.store.postgresql.connection import Timeouts
from weft.store.postgresql.store import PostgresqlStore
from weft.store.protocol import EVERYONE, EventFilter, TaskStore
from weft.store.sqlite.memory import MemoryAccess, MemoryDatabase
from weft.store.sqlite.store import SqliteStore
from weft.tasks.record import JsonObject, Status


def a_task(number: int) -> JsonObject:
    """Return a task that depends on two earlier ones, or on none."""
    before = [one for one in (number - 1, number - 3) if number % 4 and one >= 0]
    needs = [f"t{one}" for one in before]
    return {"name": f"t{number}", "schemas": {"method": "count"}, "dependencies": needs}


ROOT = {"name": "root", "schemas": {"method": "count"}, "dependencies": ["t27", "t28"]}
FLOW = [ROOT, *map(a_task, range(29))]

PROGRAM = (
    HEAD
    + """
(define one (ask "x p1 q"))
(define many (map ask (list "x p2 q" "x p3 q" "x p4 q")))
(define caught (try (ask "x p5 fails") (catch e "caught")))
(define looped (loop 2 (begin (set! s (+ s 1)) (ask (format "x p6 q {}" s)))))
(define raced (parallel (ask "x p7 q") (script :argv ("good" "x"))))
(define spent (try (with-budget (:calls 1) (list (ask "x p8 q") (ask "x p9 q"))) (catch e "spent")))
(define late (try (with-timeout 0.05 (ask "x p10 hangs")) (catch e "late")))
(define done (sequential (ask "x p11 q") (both "x p12 q" "x p13 q")))
(define told (list (boss "x p14 delegates") (person "x p15") (curious "x p16 wonders")))
(define everything (append (list one caught looped spent late done (kit:note "x")) many raced told))
(map (lambda (x) (format "{}" x)) everything)
"""
)

VIRTUAL = EngineLimits(lease_seconds=6.0, heartbeat_seconds=1.0, poll_seconds=0.5, lookup_seconds=0.5)
REAL = EngineLimits(lease_seconds=6.0, heartbeat_seconds=0.5, poll_seconds=0.05, lookup_seconds=0.05)
SHORT = Timeouts(
    connect_seconds=2.0, lock_seconds=0.2, idle_seconds=0.2, command_seconds=0.2, large_seconds=0.2
)


class QuickModel(Model):
    """A model that says the same to the same question, at once."""

    def latency(self) -> float:
        return 0.0

    def text(self, prompt: str, messages: int) -> str:
        return f"answer to {prompt} after {messages};"


class Stage:
    """Runs the flow or the program once on a store, and looks at what is left of it."""

    def __init__(self, store: TaskStore, limits: EngineLimits, is_stored: IsStored) -> None:
        self._store = store
        self._limits = limits
        self.model = QuickModel(Random(1), is_stored)
        self.performed: Counter[str] = Counter()

    def _app(self) -> App:
        executors = built_in_registry()

        async def count(inputs: JsonObject, work: Work) -> JsonObject:
            self.performed[work.task.name] += 1
            return {"value": work.task.name}

        executors.executor("count")(count)
        return App(
            self._store,
            settings=Settings(db="unused"),
            limits=self._limits,
            executors=executors,
            new_effects=lambda _: Effects(self.model, Random(1), SystemClock()),
        )

    async def run(self, workload: str) -> Any:
        """Return the result, once everything has ended; raises TimeoutError if something hangs for ever."""
        app = self._app()
        try:
            async with asyncio.timeout(600):
                return await self._result(app, workload)
        finally:
            await app.stop(grace_seconds=0)

    async def _result(self, app: App, workload: str) -> Any:
        if workload == "flow":
            root_id = await app.begin(FLOW)
        else:
            root_id = await app.begin_program(load_program(PROGRAM, RunOptions(reuse=False)), {}, name="run")
        while not (await app.get(root_id)).status.is_terminal:
            await app.wait(root_id)
            for question in await app.questions(root_id):
                await app.answer(question.id, "yes")
        await app.wait(root_id)
        await self._check(app, root_id)
        return (await app.get(root_id)).result

    async def _check(self, app: App, root_id: TaskId) -> None:
        flow = await app.flow_of(root_id)
        events = await app.events(EventFilter(tree=root_id, limit=100_000))
        assert not list(flow_violations(flow, events))
        assert root_id not in await self._store.running_flows(owner=EVERYONE)
        assert flow.root.status is Status.COMPLETED, flow.root.error
        assert not self.model.repeated


def all_of_it(text: str) -> bool:
    """Take every answer for stored: where no attempt is lost, no question is asked twice."""
    return True


async def in_memory(workload: str, fault: StoreFault | None, at: int) -> tuple[Any, int]:
    """Run once in a store in memory, and return the result and the number of calls."""
    database = MemoryDatabase()
    store = SqliteStore(MemoryAccess(database, MachineClock(asyncio.get_running_loop())))

    def is_stored(text: str) -> bool:
        query = "SELECT 1 FROM tasks WHERE status = 'completed' AND instr(result, ?)"
        return database.connection.execute(query, (text,)).fetchone() is not None

    stage = Stage(store, VIRTUAL, is_stored if fault is StoreFault.HANG else all_of_it)
    with plan_store_fault(fault, at) as plan:
        result = await stage.run(workload)
    await store.close()
    if fault is not StoreFault.HANG:
        assert set(stage.performed.values()) <= {1}, "no attempt was lost, so none is made twice"
    return result, plan.calls


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("fault", [StoreFault.FAIL, StoreFault.HANG])
@pytest.mark.parametrize("workload", ["flow", "program"])
def test_whichever_call_of_the_store_breaks_nothing_is_lost(
    workload: str, fault: StoreFault, part: int
) -> None:
    expected, calls = run_virtually(in_memory(workload, None, 0))
    for at in range(1 + part, calls + 1, 4):
        result, _ = run_virtually(in_memory(workload, fault, at))
        assert result == expected, f"{fault} at call {at} of {calls}"


async def in_postgresql(
    store: TaskStore, workload: str, fault: StoreFault | None, at: int
) -> tuple[Any, bool]:
    """Run once in PostgreSQL, and return the result and whether the call came that was to break."""
    stage = Stage(store, REAL, all_of_it)
    with plan_store_fault(fault, at) as plan:
        result = await stage.run(workload)
    assert set(stage.performed.values()) <= {1}, "no attempt was lost, so none is made twice"
    return result, plan.is_reached


async def check_postgresql(url: str, workload: str, fault: StoreFault, every: int) -> None:
    store = await PostgresqlStore.open(url, timeouts=SHORT)
    try:
        expected, _ = await in_postgresql(store, workload, None, 0)
        at, is_reached = 1, True
        while is_reached:
            result, is_reached = await in_postgresql(store, workload, fault, at)
            assert result == expected, f"{fault} at call {at}"
            at += every
        assert at > 20, "the series ended before the run did"
    finally:
        await store.close()


@pytest.fixture
def schema(postgresql: str) -> str:
    return fresh_schema(postgresql)


@pytest.mark.parametrize("fault", StoreFault)
@pytest.mark.parametrize("workload", ["flow", "program"])
async def test_whatever_postgresql_does_to_every_seventh_call_nothing_is_lost(
    schema: str, workload: str, fault: StoreFault
) -> None:
    await check_postgresql(schema, workload, fault, every=7)


@pytest.mark.slow
@pytest.mark.parametrize("fault", StoreFault)
@pytest.mark.parametrize("workload", ["flow", "program"])
async def test_whatever_postgresql_does_to_any_call_nothing_is_lost(
    schema: str, workload: str, fault: StoreFault
) -> None:
    await check_postgresql(schema, workload, fault, every=1)
