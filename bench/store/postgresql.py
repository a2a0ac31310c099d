"""The PostgreSQL store against the same statements issued bare.

Bare is asyncpg's `executemany` in batches of 1,000, a transaction each: insert, start and complete every
task, without events, checks or claims. Ours is one submit, then 500 concurrent callers that start and
finish the tasks, all through the store. Both run on one server, alternately; the best of each counts.

    python -m bench.store.postgresql [--size TASKS]
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import asyncpg
import pytest
from tests.postgresql_server import fresh_schema, postgresql_server

from bench.measure import NOW, Benchmark, Figure, LeftOut, Measured, with_callers
from weft.ids import new_task_id
from weft.store.columns import columns_of
from weft.store.postgresql.store import PostgresqlStore
from weft.store.protocol import EVERYONE, Claim
from weft.tasks.flow import Flow
from weft.tasks.operations import CancelTasks, CopyTasks, SubmitFlow
from weft.tasks.parsing.flow_parser import read_flow
from weft.tasks.record import FIELD_NAMES, Task
from weft.tasks.states import Completed

BATCH = 1_000
CALLERS = 500
RESULT = {"value": "some text that a model wrote", "tokens": 1234}

INSERTED = (*FIELD_NAMES, "method", "waiting_for")
INSERT = (
    f"INSERT INTO tasks ({', '.join(INSERTED)}) "
    f"VALUES ({', '.join(f'${n + 1}' for n in range(len(INSERTED)))})"
)
START = (
    "UPDATE tasks SET status = 'in_progress', started_at = $2, updated_at = $2, attempt = attempt + 1, "
    "worker = $3 WHERE id = $1 AND status = 'pending'"
)
COMPLETE = (
    "UPDATE tasks SET status = 'completed', result = $2, progress = 1, completed_at = $3, updated_at = $3, "
    "worker = NULL WHERE id = $1 AND status = 'in_progress' AND attempt = 1"
)


def a_flow(size: int) -> Flow:
    """Return a flow of tasks with inputs; each but the root has a parent and a dependency."""
    document = [
        {
            "name": f"task {number}",
            "inputs": {"prompt": "summarise the file", "file": f"{number}.txt"},
            "schemas": {"method": "noop"},
            "dependencies": [{"name": "task 0"}] if number else [],
        }
        for number in range(size)
    ]
    return read_flow(document, new_id=new_task_id, now=NOW)


async def timed(steps: dict[str, Callable[[], Awaitable[Any]]]) -> dict[str, float]:
    """Return the seconds that each step takes."""
    seconds = {}
    for name, step in steps.items():
        begin = time.perf_counter()
        await step()
        seconds[name] = time.perf_counter() - begin
    return seconds


async def bare(url: str, size: int) -> dict[str, float]:
    """Return the seconds of the three statements, without the store."""
    await (await PostgresqlStore.open(url)).close()
    connection = await asyncpg.connect(url)
    tasks = list(a_flow(size))
    inserts = [[*columns_of(task), "noop", len(task.dependencies)] for task in tasks]
    starts = [(task.id, NOW, "w") for task in tasks]
    finishes = [(task.id, '{"value":"some text that a model wrote","tokens":1234}', NOW) for task in tasks]

    async def run(statement: str, rows: list[Any]) -> None:
        for first in range(0, len(rows), BATCH):
            async with connection.transaction():
                await connection.executemany(statement, rows[first : first + BATCH])

    try:
        return await timed(
            {
                "insert": lambda: run(INSERT, inserts),
                "start": lambda: run(START, starts),
                "complete": lambda: run(COMPLETE, finishes),
            }
        )
    finally:
        await connection.close()


async def ours(url: str, size: int) -> dict[str, float]:
    """Return the seconds of the same statements, through the store."""
    store = await PostgresqlStore.open(url)
    flow = a_flow(size)
    claims: list[Claim] = []

    async def start(task: Task) -> None:
        claims.append(await store.start(task.id, worker="w", now=NOW, owner=EVERYONE))

    async def finish(claim: Claim) -> None:
        assert await store.finish(claim, Completed(NOW, RESULT))

    try:
        return await timed(
            {
                "insert": lambda: store.operate(SubmitFlow(flow, NOW), owner=EVERYONE),
                "start": lambda: with_callers(start, list(flow), callers=CALLERS),
                "complete": lambda: with_callers(finish, claims, callers=CALLERS),
            }
        )
    finally:
        await store.close()


async def flow_seconds(url: str, size: int) -> dict[str, float]:
    """Return the seconds that a whole flow takes to submit, to read and to copy."""
    store = await PostgresqlStore.open(url)
    flow = a_flow(size)
    root = flow.root.id
    copy = CopyTasks(task_id=root, new_id=new_task_id, now=NOW)
    try:
        return await timed(
            {
                "submit": lambda: store.operate(SubmitFlow(flow, NOW), owner=EVERYONE),
                "read": lambda: store.flow_of(root, owner=EVERYONE),
                "copy": lambda: store.operate(copy, owner=EVERYONE),
            }
        )
    finally:
        await store.close()


async def small_operations(url: str, count: int) -> dict[str, float]:
    """Return the seconds that 500 concurrent callers take for this many small operations."""
    store = await PostgresqlStore.open(url)
    small = [a_flow(1) for _ in range(count)]

    async def submit(flow: Flow) -> None:
        await store.operate(SubmitFlow(flow, NOW), owner=EVERYONE)

    async def cancel(flow: Flow) -> None:
        await store.operate(CancelTasks(task_id=flow.root.id, reason="measured", now=NOW), owner=EVERYONE)

    try:
        return await timed(
            {
                "submit": lambda: with_callers(submit, small, callers=CALLERS),
                "cancel": lambda: with_callers(cancel, small, callers=CALLERS),
            }
        )
    finally:
        await store.close()


def measure(options: argparse.Namespace) -> Iterator[Measured]:
    """Yield the ratio of the best times, how flows grow, and rates of small operations."""
    try:
        with postgresql_server() as server:
            yield _ratio(server, options)
            yield from _growth(server, 5 * options.size)
            yield from _rates(server, options.size // 2)
    except pytest.skip.Exception as skipped:
        yield LeftOut("", str(skipped))


def _ratio(server: str, options: argparse.Namespace) -> Figure:
    times: dict[str, list[float]] = {"bare": [], "ours": []}
    for _ in range(options.rounds):
        for name, act in (("bare", bare), ("ours", ours)):
            times[name].append(sum(asyncio.run(act(fresh_schema(server), options.size)).values()))
    return Figure(
        f"insert, start, complete of {options.size:,} tasks by {CALLERS} callers, with events",
        min(times["ours"]) / min(times["bare"]),
        "x",
        f"the time of bare pipelined statements in batches of {BATCH:,}",
        at_most=3,
        details=f"{min(times['ours']):.2f} s to {min(times['bare']):.2f} s",
    )


def _growth(server: str, large: int) -> Iterator[Figure]:
    small = large // 10
    tenth, whole = (asyncio.run(flow_seconds(fresh_schema(server), size)) for size in (small, large))
    for name, took in whole.items():
        yield Figure(
            f"{name} a flow of {large:,} tasks",
            took / tenth[name],
            "x",
            f"the time of {small:,} tasks",
            details=f"{took / large * 1e6:.0f} us a task",
        )


def _rates(server: str, count: int) -> Iterator[Figure]:
    for name, took in asyncio.run(small_operations(fresh_schema(server), count)).items():
        yield Figure(f"{name} single tasks by {CALLERS} callers", count / took, "tasks/s")


BENCHMARK = Benchmark("The PostgreSQL store", "tasks", smallest=20, full=20_000, measure=measure)

if __name__ == "__main__":
    BENCHMARK.run()
