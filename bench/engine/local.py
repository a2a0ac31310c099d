"""The local engine on SQLite, no-op tasks: against bare `sqlite3` statements for the same three writes.

The time is that of storing the flow and running it to its end, in one process, every step durable. Bare:
insert, start and complete of as many tasks with `executemany` in transactions of 1,000.

    python -m bench.engine.local [largest size]
"""

import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.engine.graphs import SHAPES
from bench.engine.shapes import a_flow
from bench.measure import NOW, machine
from bench.store.sqlite import bare
from weft.app import App
from weft.engine.limits import EngineLimits
from weft.store.protocol import EVERYONE
from weft.tasks.operations import SubmitFlow

SIZES = (1_000, 10_000, 100_000)
ROUNDS = 3
CONCURRENCY = 500


async def run_flow(shape: str, size: int) -> tuple[float, float]:
    """Seconds to store and run, and KB of resident memory for each task that waited."""
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
    return took, grown / size


def bare_seconds(size: int) -> float:
    """Seconds for the bare statements."""
    flow = a_flow("fan-out", size)
    with tempfile.TemporaryDirectory() as folder:
        return bare(flow, Path(folder))


def main() -> None:
    """Measure each shape and size in a process of its own, best of three, and print rates and ratios."""
    if len(sys.argv) == 3:
        shape, size = sys.argv[1], int(sys.argv[2])
        if shape == "bare":
            print(bare_seconds(size), 0.0)
        else:
            print(*asyncio.run(run_flow(shape, size)))
        return
    sizes = [size for size in SIZES if size <= int(sys.argv[1] if len(sys.argv) > 1 else SIZES[-1])]
    print(machine())
    best: dict[tuple[str, int], float] = {}
    for size in sizes:
        for shape in ("bare", *SHAPES):
            runs = [_measured(shape, size) for _ in range(ROUNDS)]
            seconds, memory = min(runs)
            best[shape, size] = seconds
            ratio = best["bare", size] / seconds
            print(
                f"{size:>7,} {shape:<8} {seconds:8.2f} s {size / seconds:9,.0f} tasks/s"
                f"  {ratio:5.2f} of the bare rate  {memory:5.1f} KB a task"
            )
    for shape in SHAPES:
        if (shape, 100_000) in best:
            print(
                f"{shape}: 100,000 takes {best[shape, 100_000] / best[shape, 10_000]:.1f}x the time of 10,000"
            )


def _measured(shape: str, size: int) -> tuple[float, float]:
    command = [sys.executable, "-m", "bench.engine.local", shape, str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, memory = map(float, done.stdout.split())
    return seconds, memory


if __name__ == "__main__":
    main()
