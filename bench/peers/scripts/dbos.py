"""DBOS: one workflow whose steps are the tasks, with its system database on SQLite.

    python -m bench.peers.scripts.dbos SHAPE SIZE

A chain is a plain workflow that calls one step after the other. The other shapes are an asynchronous workflow
that gathers the steps of one level at a time: steps must begin in the same order each time, so it cannot
begin each one as soon as its own parents end. DBOS keeps SQLite's defaults: a rollback journal, and waiting
for the disk at each commit. Without a Conductor key and with OTLP left off, nothing is sent anywhere.
"""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from dbos import DBOS

from bench.engine.graphs import Graph, levels
from bench.peers.measured import Measured, report

POOL_SIZE = 2
"""Connections to the system database. With the default of 20, concurrent steps wait for SQLite's write lock
by sleeping: 200 tasks in layers took 4.6 s, with 2 connections 0.8 s."""


@DBOS.step()
def noop(number: int) -> int:
    return number


@DBOS.step()
async def noop_async(number: int) -> int:
    """Do nothing, in a workflow that runs several steps at a time."""
    return number


@DBOS.workflow()
def in_turn(size: int) -> int:
    """Run a chain; how many tasks ran."""
    return len([noop(number) for number in range(size)])


@DBOS.workflow()
async def by_levels(found: list[list[int]]) -> int:
    """Run level after level; how many tasks ran."""
    ran = 0
    for level in found:
        ran += len(await asyncio.gather(*(noop_async(number) for number in level)))
    return ran


def run(graph: Graph, folder: Path) -> Measured:
    """Run the graph, and count the steps in the database."""
    database = folder / "dbos.db"
    DBOS(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{database}",
            "sys_db_pool_size": POOL_SIZE,
            "log_level": "ERROR",
        }
    )
    DBOS.launch()
    found = levels(graph)
    is_chain = all(len(level) == 1 for level in found)
    began = time.perf_counter()
    ran = in_turn(len(graph)) if is_chain else asyncio.run(by_levels(found))
    seconds = time.perf_counter() - began
    DBOS.destroy()
    assert ran == len(graph), ran
    with closing(sqlite3.connect(database)) as connection:
        [(status,)] = connection.execute("SELECT status FROM workflow_status")
        assert status == "SUCCESS", status
        [(tasks,)] = connection.execute("SELECT count(*) FROM operation_outputs WHERE error IS NULL")
    return Measured(seconds, tasks)


if __name__ == "__main__":
    report("dbos", run)
