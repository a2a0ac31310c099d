"""Prefect: a flow that submits each task with `wait_for`, with the server it starts itself, on SQLite.

    python -m bench.peers.scripts.prefect SHAPE SIZE

The server is a process of its own that the first flow run starts: that run is not measured. Task run states
reach the server as events after the fact, so the flow returns before they are all recorded. Both times are
reported; the first is the one compared.
"""

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.settings import get_current_settings

from bench.engine.graphs import Graph
from bench.peers.measured import Measured, report

RECORDED_WITHIN_SECONDS = 300
LOOK_EVERY_SECONDS = 0.1


@task
def noop(number: int) -> int:
    return number


@flow
def nothing() -> None:
    """Start the server and create its database."""


@flow
def submit_all(graph: Graph) -> int:
    """Run the graph; how many tasks ran."""
    futures: list[Any] = []
    for number, parents in enumerate(graph):
        futures.append(noop.submit(number, wait_for=[futures[parent] for parent in parents]))
    return len([future.result() for future in futures])


def run(graph: Graph, folder: Path) -> Measured:
    """Run the graph, and count the completed task runs in the server's database once they are there."""
    nothing()
    began = time.perf_counter()
    ran = submit_all(graph)
    seconds = time.perf_counter() - began
    assert ran == len(graph), ran
    # In Prefect's home and not in the folder, as the settings are read when Prefect is imported.
    database = get_current_settings().home / "prefect.db"
    tasks = 0
    with closing(sqlite3.connect(database)) as connection:
        while tasks < len(graph) and time.perf_counter() - began < RECORDED_WITHIN_SECONDS:
            time.sleep(LOOK_EVERY_SECONDS)
            [(tasks,)] = connection.execute("SELECT count(*) FROM task_run WHERE state_type = 'COMPLETED'")
    return Measured(seconds, tasks, recorded_seconds=time.perf_counter() - began)


if __name__ == "__main__":
    report("prefect", run)
