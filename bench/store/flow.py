"""Read, check and store a flow, and one of a tenth of its size: time must grow with the size, not faster.

Each in a process of its own, whose peak of memory is counted; the best of each.

    python -m bench.store.flow [--size TASKS]
"""

import argparse
import asyncio
import random
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.measure import NOW, Benchmark, Figure, in_own_process
from weft.ids import new_task_id
from weft.store.protocol import EVERYONE
from weft.store.sqlite.store import SqliteStore
from weft.tasks.operations import SubmitFlow
from weft.tasks.parsing.flow_parser import read_flow
from weft.tasks.parsing.problems import decode

SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "minimum": 0}}}


class Stored(NamedTuple):
    """Seconds, and the peak of memory in MB."""

    total: float
    reading: float
    storing: float
    peak: float


def document(size: int) -> bytes:
    """Return a flow in layers of 1,000; a task depends on two of the layer before, by name."""
    pick = random.Random(7)
    tasks = []
    for number in range(size):
        first = (number // 1000 - 1) * 1000
        names = {f"t{pick.randrange(first, first + 1000)}" for _ in range(2)} if first >= 0 else set()
        schemas = {"method": "noop", "input_schema": SCHEMA}
        tasks.append(
            {"name": f"t{number}", "inputs": {"n": number}, "schemas": schemas, "dependencies": sorted(names)}
        )
    return msgspec.json.encode(tasks)


async def store_flow(size: int) -> Stored:
    """Read, check and store a flow of this size."""
    text = document(size)
    with tempfile.TemporaryDirectory() as folder:
        store = await SqliteStore.open(Path(folder) / "weft.db")
        began = time.perf_counter()
        flow = read_flow(decode(text), new_id=new_task_id, now=NOW)
        read = time.perf_counter()
        await store.operate(SubmitFlow(flow, NOW), owner=EVERYONE)
        stored = time.perf_counter()
        await store.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Stored(stored - began, read - began, stored - read, peak)


def stored(size: int) -> Stored:
    """Run `store_flow` to its end."""
    return asyncio.run(store_flow(size))


def measure(options: argparse.Namespace) -> Iterator[Figure]:
    """Yield the growth of time and the peak of memory."""
    small, large = (
        min(in_own_process(stored, size) for _ in range(options.rounds))
        for size in (options.size // 10, options.size)
    )
    yield Figure(
        f"reading, checking and storing a flow of {options.size:,} tasks",
        large.total / small.total,
        "x",
        f"the time of {options.size // 10:,} tasks",
        at_most=12,
        details=f"read and check {large.reading:.2f} s, store {large.storing:.2f} s",
    )
    yield Figure(f"peak of memory with {options.size:,} tasks", large.peak, "MB", at_most=1_000)


BENCHMARK = Benchmark("Storing large flows", "tasks", smallest=100, full=100_000, measure=measure)

if __name__ == "__main__":
    BENCHMARK.run()
