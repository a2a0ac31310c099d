"""Insert, start and complete 20,000 tasks: the SQLite store against the bare `sqlite3` module.

Bare: the same three statements on the same schema, `executemany` in transactions of 1,000, no events, no
records, no validation. Ours: one submitted flow, then 500 concurrent callers that each start and finish one
task at a time, every write durable when its call returns, with its events.

    python -m bench.store.sqlite
"""

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.measure import NOW, machine, with_callers
from weft.ids import new_task_id
from weft.store.protocol import EVERYONE, Claim
from weft.store.queries import load_queries
from weft.store.sqlite.connection import connect, prepare
from weft.store.sqlite.rows import task_row
from weft.store.sqlite.store import SqliteStore
from weft.tasks.flow import Flow
from weft.tasks.operations import SubmitFlow
from weft.tasks.reading import read_flow
from weft.tasks.states import Completed

TASKS = 20_000
BATCH = 1_000
CALLERS = 500
ROUNDS = 5

_INSERT = load_queries("sqlite")["insert_task"]
_START = """
    UPDATE tasks SET status = 'in_progress', started_at = ?1, updated_at = ?1,
        attempt = attempt + 1, lease_owner = ?2, lease_until = ?3
    WHERE id = ?4 AND status = 'pending'
"""
_COMPLETE = """
    UPDATE tasks SET status = 'completed', result = ?1, progress = 1.0, completed_at = ?2, updated_at = ?2,
        lease_owner = NULL, lease_until = NULL
    WHERE id = ?3 AND status = 'in_progress' AND attempt = ?4 AND lease_owner = ?5
"""


def a_flow() -> Flow:
    """A flow of as many tasks as are measured."""
    tasks = [
        {"name": f"t{number}", "inputs": {"n": number}, "schemas": {"method": "noop"}}
        for number in range(TASKS)
    ]
    return read_flow(tasks, new_id=new_task_id, now=NOW)


def bare(flow: Flow, folder: Path) -> float:
    """Seconds for the three bare statements."""
    path = folder / "bare.db"
    connection = connect(path, is_reader=False, synchronous="NORMAL")
    prepare(connection, path)
    inserts = [task_row(task) for task in flow]
    starts = [(1, "w", 1, task.id) for task in flow]
    completions = [('{"value":1}', 1, task.id, 1, "w") for task in flow]
    began = time.perf_counter()
    _in_batches(connection, _INSERT, inserts)
    _in_batches(connection, _START, starts)
    _in_batches(connection, _COMPLETE, completions)
    took = time.perf_counter() - began
    connection.close()
    return took


def _in_batches(connection: sqlite3.Connection, statement: str, rows: Sequence[Sequence[Any]]) -> None:
    for first in range(0, len(rows), BATCH):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(statement, rows[first : first + BATCH])
        connection.execute("COMMIT")


async def ours(flow: Flow, folder: Path) -> float:
    """Seconds for the same through the store."""
    store = await SqliteStore.open(folder / "ours.db")
    began = time.perf_counter()
    await store.operate(SubmitFlow(flow, NOW), owner=EVERYONE)
    claims: list[Claim] = await with_callers(
        lambda task: store.start(task.id, worker="w", now=NOW, lease_until=NOW, owner=EVERYONE),
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


def main() -> None:
    """Measure both by turns and print the best of each and their ratio."""
    flow = a_flow()
    bare_times, our_times = [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            bare_times.append(bare(flow, Path(folder)))
            our_times.append(asyncio.run(ours(flow, Path(folder))))
        print(
            f"bare {bare_times[-1]:.2f} s, ours {our_times[-1]:.2f} s: {our_times[-1] / bare_times[-1]:.2f}x"
        )
    print(f"best of {ROUNDS}: {min(our_times) / min(bare_times):.2f}x the time of bare sqlite3 ({machine()})")


if __name__ == "__main__":
    main()
