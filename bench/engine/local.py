"""The local engine on SQLite, no-op tasks: against bare `sqlite3` statements for the same three writes.

The time is that of storing the flow and running it to its end, in one process, every step durable. Bare:
insert, start and complete of as many tasks with `executemany` in transactions of 1,000, without events, graph
or checks. The best of each.

    python -m bench.engine.local [--size LARGEST]
"""

import argparse
import asyncio
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.engine.graphs import SHAPES
from bench.engine.shapes import a_flow
from bench.measure import NOW, Benchmark, Figure, in_own_process
from bench.store.sqlite import bare
from weft.app.app import App
from weft.engine.limits import EngineLimits
from weft.store.protocol import EVERYONE
from weft.tasks.operations import SubmitFlow

SIZES = (1_000, 10_000, 100_000)
JUDGED = 10_000
"""The size that the goals are about."""
CONCURRENCY = 500
LEAST_OF_BARE = {"fan-out": 0.25, "layers": 0.25}


class Ran(NamedTuple):
    """Seconds to store and run a flow, and KB of resident memory for each task that waited."""

    seconds: float
    memory: float


async def run_flow(shape: str, size: int) -> Ran:
    """Store a flow and run it to its end."""
    flow = a_flow(shape, size)
    root_id, now = flow.root.id, flow.root.created_at or NOW
    submit = SubmitFlow(flow, now, is_run=True)
    del flow  # the engine does not hold it either
    with tempfile.TemporaryDirectory() as folder:
        async with await App.open(f"{folder}/weft.db", limits=EngineLimits(concurrency=CONCURRENCY)) as app:
            await app.engine()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            began = time.perf_counter()
            await app.store.operate(submit, owner=EVERYONE)
            del submit
            await app.wait(root_id)
            took = time.perf_counter() - began
            summary = await app.summary(root_id)
            assert summary.counts == {"completed": size}, summary
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return Ran(took, grown / size)


def run(shape: str, size: int) -> Ran:
    """Run a shape to its end, or the bare statements for as many tasks."""
    if shape != "bare":
        return asyncio.run(run_flow(shape, size))
    with tempfile.TemporaryDirectory() as folder:
        return Ran(bare(a_flow("fan-out", size), Path(folder)), 0.0)


def best_of(rounds: int, shape: str, size: int) -> Ran:
    """Return the fastest of several runs, each in a process of its own."""
    if size < SIZES[0]:  # too small to see memory grow, and starting processes would take most of the time
        return min(run(shape, size) for _ in range(rounds))
    return min(in_own_process(run, shape, size) for _ in range(rounds))


def measure(options: argparse.Namespace) -> Iterator[Figure]:
    """Yield rates against bare statements, memory, and how time grows with the size."""
    sizes = [size for size in SIZES if size < options.size] + [options.size]
    best: dict[tuple[str, int], Ran] = {}
    for size in sizes:
        plain = best_of(options.rounds, "bare", size)
        for shape in SHAPES:
            best[shape, size] = best_of(options.rounds, shape, size)
            yield from _rates(shape, size, best[shape, size], plain)
    yield Figure(
        f"resident memory for each of {sizes[-1]:,} tasks, the largest of the shapes",
        max(best[shape, sizes[-1]].memory for shape in SHAPES),
        "KB",
        at_most=5,
    )
    if len(sizes) > 1:
        yield from _growth(sizes[-2], sizes[-1], best)


def _rates(shape: str, size: int, ran: Ran, plain: Ran) -> Iterator[Figure]:
    is_judged = size == JUDGED
    rate = size / ran.seconds
    yield Figure(
        f"{shape} of {size:,} tasks",
        plain.seconds / ran.seconds,
        "x",
        "the rate of bare sqlite3",
        at_least=LEAST_OF_BARE.get(shape) if is_judged else None,
        details=f"{rate:,.0f} to {size / plain.seconds:,.0f} tasks/s",
    )
    if is_judged and shape == "chain":
        yield Figure(f"rate of a chain of {size:,} tasks", rate, "tasks/s", at_least=3_000)


def _growth(small: int, large: int, best: dict[tuple[str, int], Ran]) -> Iterator[Figure]:
    for shape in SHAPES:
        yield Figure(
            f"{shape}: time of {large:,} tasks",
            best[shape, large].seconds / best[shape, small].seconds,
            "x",
            f"the time of {small:,} tasks",
            at_most=1.2 * large / small,
        )


def workload(size: int) -> None:
    """Run each shape once."""
    for shape in SHAPES:
        asyncio.run(run_flow(shape, size))


BENCHMARK = Benchmark(
    "The engine on SQLite",
    "tasks of the largest flows",
    smallest=30,
    full=SIZES[-1],
    measure=measure,
    workload=workload,
)

if __name__ == "__main__":
    BENCHMARK.run()
