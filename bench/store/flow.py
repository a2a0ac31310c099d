"""Read, check and store a flow of 10,000 and of 100,000 tasks: time must grow with the size, not faster.

python -m bench.store.flow
"""

import asyncio
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from bench.measure import NOW, machine
from weft.ids import new_task_id
from weft.store.protocol import EVERYONE
from weft.store.sqlite.store import SqliteStore
from weft.tasks.json_text import decode
from weft.tasks.operations import SubmitFlow
from weft.tasks.reading import read_flow

SIZES = (10_000, 100_000)
SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "minimum": 0}}}


def document(size: int) -> bytes:
    """A flow in layers of 1,000, each task with two dependencies in the layer before, given by name."""
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


async def store_flow(size: int) -> None:
    """Print seconds for reading and for storing, and the peak of memory in MB."""
    text = document(size)
    with tempfile.TemporaryDirectory() as folder:
        store = await SqliteStore.open(Path(folder) / "weft.db")
        began = time.perf_counter()
        flow = read_flow(decode(text), new_id=new_task_id, now=NOW)
        read = time.perf_counter()
        await store.operate(SubmitFlow(flow, NOW), owner=EVERYONE)
        stored = time.perf_counter()
        await store.close()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{read - began:.3f} {stored - read:.3f} {memory}")


def main() -> None:
    """Measure each size in a process of its own, best of three, and print the ratio."""
    if len(sys.argv) > 1:
        asyncio.run(store_flow(int(sys.argv[1])))
        return
    totals = {}
    for size in SIZES:
        runs = []
        for _ in range(3):
            command = [sys.executable, "-m", "bench.store.flow", str(size)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            read, stored, memory = map(float, done.stdout.split())
            runs.append((read + stored, read, stored, memory))
        totals[size], read, stored, memory = min(runs)
        print(f"{size:>7,} tasks: read and check {read:.2f} s, store {stored:.2f} s, peak {memory:.0f} MB")
    print(f"100,000 takes {totals[100_000] / totals[10_000]:.1f}x the time of 10,000 ({machine()})")


if __name__ == "__main__":
    main()
