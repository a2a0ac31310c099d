"""The PostgreSQL store against the same statements issued bare.

    python -m bench.store.postgresql

Bare is asyncpg's `executemany` in batches of 1,000, a transaction each: insert, start and complete every
task, without events, checks or claims. Ours is one submit, then 500 concurrent callers that start and
finish the tasks, all through the store. Both run on one server, alternately; the best of three counts.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
from tests.postgresql_server import fresh_schema, postgresql_server

from bench.measure import NOW, with_callers
from weft.ids import new_task_id
from weft.store.columns import columns_of
from weft.store.postgresql.store import PostgresqlStore
from weft.store.protocol import EVERYONE, Claim
from weft.tasks.flow import Flow
from weft.tasks.operations import CopyTasks, MoveTask, SubmitFlow
from weft.tasks.reading import read_flow
from weft.tasks.record import FIELD_NAMES, Task
from weft.tasks.states import Cancelled, Completed

TASKS = 20_000
BATCH = 1_000
CALLERS = 500
ROUNDS = 3
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
    """A flow of tasks with some inputs, each but the root with a parent and a dependency."""
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
    """The seconds of each step."""
    seconds = {}
    for name, step in steps.items():
        begin = time.perf_counter()
        await step()
        seconds[name] = time.perf_counter() - begin
    return seconds


async def bare(url: str) -> dict[str, float]:
    """The seconds of the three statements issued bare."""
    await (await PostgresqlStore.open(url)).close()
    connection = await asyncpg.connect(url)
    tasks = list(a_flow(TASKS))
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


async def ours(url: str) -> dict[str, float]:
    """The seconds of the same through the store."""
    store = await PostgresqlStore.open(url)
    flow = a_flow(TASKS)
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


async def flows(url: str) -> None:
    """Print what flows of growing size cost: the time for each task must not grow."""
    store = await PostgresqlStore.open(url)
    try:
        for size in (1_000, 10_000, 100_000):
            flow = a_flow(size)
            root = flow.root.id
            copy = CopyTasks(task_id=root, new_id=new_task_id, now=NOW)
            seconds = await timed(
                {
                    "submit": lambda flow=flow: store.operate(SubmitFlow(flow, NOW), owner=EVERYONE),  # type: ignore[misc]
                    "read": lambda root=root: store.flow_of(root, owner=EVERYONE),  # type: ignore[misc]
                    "copy": lambda copy=copy: store.operate(copy, owner=EVERYONE),  # type: ignore[misc]
                }
            )
            each = "  ".join(f"{name} {took / size * 1e6:6.1f} us" for name, took in seconds.items())
            print(f"flow of {size:7,}: {each} for each task")
    finally:
        await store.close()


async def small_operations(url: str) -> None:
    """Print how many small operations 500 concurrent callers get done."""
    store = await PostgresqlStore.open(url)
    small = [a_flow(1) for _ in range(10_000)]

    async def submit(flow: Flow) -> None:
        await store.operate(SubmitFlow(flow, NOW), owner=EVERYONE)

    async def cancel(flow: Flow) -> None:
        await store.operate(MoveTask(flow.root.id, Cancelled(NOW)), owner=EVERYONE)

    try:
        seconds = await timed(
            {
                "submit": lambda: with_callers(submit, small, callers=CALLERS),
                "cancel": lambda: with_callers(cancel, small, callers=CALLERS),
            }
        )
        print("  ".join(f"{name} {len(small) / took:,.0f}/s" for name, took in seconds.items()))
    finally:
        await store.close()


def shown(name: str, seconds: dict[str, float]) -> float:
    """Print the times of a run and return their sum."""
    total = sum(seconds.values())
    print(f"{name:5} {total:6.2f} s  ", "  ".join(f"{step} {took:.2f}" for step, took in seconds.items()))
    return total


def main() -> None:
    """Print every run's times, and the ratio of the best ones."""
    with postgresql_server() as server:
        times: dict[str, list[float]] = {"bare": [], "ours": []}
        for _ in range(ROUNDS):
            times["bare"].append(shown("bare", asyncio.run(bare(fresh_schema(server)))))
            times["ours"].append(shown("ours", asyncio.run(ours(fresh_schema(server)))))
        print(f"best of {ROUNDS}: {min(times['ours']) / min(times['bare']):.2f} times bare (goal: at most 3)")
        asyncio.run(flows(fresh_schema(server)))
        asyncio.run(small_operations(fresh_schema(server)))


if __name__ == "__main__":
    main()
