"""apflow: a task tree whose other tasks are children of the first, run by its `TaskExecutor` on SQLite.

    python -m bench.peers.scripts.apflow SHAPE SIZE

A tree has one root, so the other tasks are children of the first, also in the first layer. A tree of one
task, which is not measured, creates the database before.
"""

import asyncio
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from apflow import function_executor
from apflow.core.execution.task_executor import TaskExecutor

from bench.engine.graphs import Graph
from bench.peers.measured import Measured, report


@function_executor(id="bench_noop", description="Does nothing")
async def noop(inputs: dict[str, Any]) -> dict[str, Any]:
    return {}


def run(graph: Graph, folder: Path) -> Measured:
    """Run the graph, and count the completed tasks in the database."""
    database = folder / "apflow.db"
    # Read when the first session is opened.
    os.environ["APFLOW_DATABASE_URL"] = f"sqlite:///{database}"
    seconds = asyncio.run(_measured(graph))
    with closing(sqlite3.connect(database)) as connection:
        [(tasks,)] = connection.execute(
            "SELECT count(*) FROM apflow_tasks WHERE status = 'completed' AND id LIKE 't%'"
        )
    return Measured(seconds, tasks)


async def _measured(graph: Graph) -> float:
    executor = TaskExecutor()
    await executor.execute_tasks([_task("first", None, [])])
    tasks = [
        _task(f"t{number}", "t0" if number else None, [f"t{parent}" for parent in parents])
        for number, parents in enumerate(graph)
    ]
    began = time.perf_counter()
    await executor.execute_tasks(tasks)
    return time.perf_counter() - began


def _task(name: str, parent: str | None, dependencies: list[str]) -> dict[str, Any]:
    task: dict[str, Any] = {"id": name, "name": name, "schemas": {"method": "bench_noop"}}
    if parent is not None:
        task["parent_id"] = parent
    return task | {"dependencies": [{"id": dependency} for dependency in dependencies]}


if __name__ == "__main__":
    report("apflow", run)
