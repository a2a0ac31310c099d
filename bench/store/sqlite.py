"""Insert, start and complete tasks: the SQLite store against the bare `sqlite3` module.

Bare: the same three statements on the same schema, `executemany` in transactions of 1,000, no events, no
records, no validation. Ours: one submitted flow, then 500 concurrent callers that each start and finish one
task at a time, every write durable when its call returns, with its events. Alternately, the best of each.

    python -m bench.store.sqlite [--size TASKS]
"""

import argparse
import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.measure import NOW, Benchmark, Figure, with_callers
from weft.ids import new_task_id
from weft.store.protocol import EVERYONE, Claim
from weft.store.sqlite.connection import connect, prepare
from weft.store.sqlite.store import SqliteStore
from weft.store.sqlite.transaction import task_row
from weft.tasks.flow import Flow
from weft.tasks.operations import SubmitFlow
from weft.tasks.parsing.flow_parser import read_flow
from weft.tasks.record import FIELD_NAMES
from weft.tasks.states import Completed

BATCH = 1_000
CALLERS = 500

# Not the store's own statement: that one gets a column now and then, which a bare insert need not fill.
_INSERTED = (*FIELD_NAMES, "method", "waiting_for")
_INSERT = f"INSERT INTO tasks ({', '.join(_INSERTED)}) VALUES ({', '.join('?' * len(_INSERTED))})"
_START = """
    UPDATE tasks SET status = 'in_progress', started_at = ?1, updated_at = ?1,
        attempt = attempt + 1, worker = ?2
    WHERE id = ?3 AND status = 'pending'
"""
_COMPLETE = """
    UPDATE tasks SET status = 'completed', result = ?1, progress = 1.0, completed_at = ?2, updated_at = ?2,
        worker = NULL
    WHERE id = ?3 AND status = 'in_progress' AND attempt = ?4 AND worker = ?5
"""


def a_flow(size: int) -> Flow:
    """Return a flow of this many independent tasks."""
    tasks = [
        {"name": f"t{number}", "inputs": {"n": number}, "schemas": {"method": "noop"}}
        for number in range(size)
    ]
    return read_flow(tasks, new_id=new_task_id, now=NOW)


def bare(flow: Flow, folder: Path) -> float:
    """Return the seconds that the three bare statements take."""
    path = folder / "bare.db"
    connection = connect(path, is_reader=False, synchronous="NORMAL")
    prepare(connection, path)
    inserts = [[*task_row(task), "noop", 0] for task in flow]
    starts = [(1, "w", task.id) for task in flow]
    completions = [('{"value":1}', 1, task.id, 1, "w") for task in flow]
    began = time.perf_counter()
    _in_batches(connection, _INSERT, inserts)
    _in_batches(connection, _START, starts)
    _in_batches(connection, _COMPLETE, completions)
    took = time.perf_counter() - began
    [(completed,)] = connection.execute("SELECT count(*) FROM tasks WHERE status = 'completed'")
    assert completed == len(flow), completed
    connection.close()
    return took


def _in_batches(connection: sqlite3.Connection, statement: str, rows: Sequence[Sequence[Any]]) -> None:
    for first in range(0, len(rows), BATCH):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(statement, rows[first : first + BATCH])
        connection.execute("COMMIT")


async def ours(flow: Flow, folder: Path) -> float:
    """Return the seconds that the same takes through the store."""
    store = await SqliteStore.open(folder / "ours.db")
    began = time.perf_counter()
    await store.operate(SubmitFlow(flow, NOW), owner=EVERYONE)
    claims: list[Claim] = await with_callers(
        lambda task: store.start(task.id, worker="w", now=NOW, owner=EVERYONE),
        list(flow),
        callers=CALLERS,
    )
    finished = await with_callers(
        lambda claim: store.finish(claim, Completed(NOW, {"value": 1})), claims, callers=CALLERS
    )
    took = time.perf_counter() - began
    assert all(finished)
    await store.close()
    return took


def measure(options: argparse.Namespace) -> Iterator[Figure]:
    """Yield the ratio of the best times."""
    flow = a_flow(options.size)
    bare_times, our_times = [], []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            bare_times.append(bare(flow, Path(folder)))
            our_times.append(asyncio.run(ours(flow, Path(folder))))
    rounds = " ".join(f"{ours / bare:.2f}" for ours, bare in zip(our_times, bare_times, strict=True))
    yield Figure(
        f"insert, start, complete of {options.size:,} tasks by {CALLERS} callers, with events",
        min(our_times) / min(bare_times),
        "x",
        f"the time of bare sqlite3 in batches of {BATCH:,}",
        at_most=3,
        details=f"{min(our_times):.2f} s to {min(bare_times):.2f} s; rounds: {rounds}",
    )


BENCHMARK = Benchmark("The SQLite store", "tasks", smallest=30, full=20_000, measure=measure, rounds=5)

if __name__ == "__main__":
    BENCHMARK.run()
