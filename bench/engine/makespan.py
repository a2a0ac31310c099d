"""How long the engine takes for recorded workflows of real sleeps, against list scheduling without overhead.

List scheduling: whenever a slot is free, the first ready task by priority and age takes it. The simulation
has the same limit and order, and no cost of its own; the engine should be within 5 % of it.

    python -m bench.engine.makespan [--size MILLISECONDS]
"""

import argparse
import asyncio
import heapq
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from tests.shared_graphs import GRAPHS, as_document, recorded_tasks

from bench.measure import Benchmark, Figure, LeftOut, Measured
from weft.app.app import App
from weft.engine.limits import EngineLimits

SLOTS = 16


def simulated(tasks: list[dict[str, Any]]) -> float:
    """Return the makespan of list scheduling."""
    place = {task["id"]: number for number, task in enumerate(tasks)}
    waiting = {task["id"]: len(task["parents"]) for task in tasks}
    children: dict[str, list[str]] = {}
    for task in tasks:
        for parent in task["parents"]:
            children.setdefault(parent, []).append(task["id"])
    ready = [place[name] for name, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    running: list[tuple[float, int]] = []
    now = 0.0
    while ready or running:
        while ready and len(running) < SLOTS:
            number = heapq.heappop(ready)
            heapq.heappush(running, (now + tasks[number]["runtime_seconds"], number))
        now, number = heapq.heappop(running)
        for child in children.get(tasks[number]["id"], []):
            waiting[child] -= 1
            if waiting[child] == 0:
                heapq.heappush(ready, place[child])
    return now


async def measured(tasks: list[dict[str, Any]], scale: float) -> float:
    """Return the engine's makespan, from the start of the run to its end."""
    with tempfile.TemporaryDirectory() as folder:
        async with await App.open(f"{folder}/weft.db", limits=EngineLimits(concurrency=SLOTS)) as app:
            flow = await app.submit(as_document(tasks, scale=scale))
            await app.engine()
            began = time.perf_counter()
            await app.run(flow)
            return time.perf_counter() - began


def measure(options: argparse.Namespace) -> Iterator[Measured]:
    """Yield how much longer each workflow takes, its sleeps scaled to the size."""
    if not GRAPHS:
        yield LeftOut("", "the recorded workflows of the shared data are not here")
    target = options.size / 1e3
    for graph in GRAPHS:
        tasks = recorded_tasks(graph)
        scale = target / simulated(tasks)
        took = min(asyncio.run(measured(tasks, scale)) for _ in range(options.rounds))
        yield Figure(
            f"{graph}, {len(tasks):,} tasks",
            took / target,
            "x",
            "list scheduling without overhead",
            at_most=1.05,
            details=f"{took:.2f} s to {target:.2f} s",
        )


BENCHMARK = Benchmark(
    "Makespan of recorded workflows",
    "milliseconds that each takes by list scheduling",
    smallest=1,
    full=6_000,
    measure=measure,
    rounds=1,
)

if __name__ == "__main__":
    BENCHMARK.run()
