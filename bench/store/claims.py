"""Claim and end every task of a flow through each store: what the engine does, without the engine.

    python -m bench.store.claims

A chain goes one task at a time, a commit each. A fan-out goes in rounds: all that was claimed is ended and
as many are claimed again, in one commit. In layers each task has two dependencies in the layer before.
"""

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.postgresql_server import fresh_schema, postgresql_server

from bench.measure import NOW, machine
from weft.app import open_store
from weft.ids import new_task_id
from weft.settings import Settings
from weft.store.protocol import EVERYONE, Claimed, Ending, TaskStore, Wanted
from weft.tasks.flow import Flow
from weft.tasks.operations import SubmitFlow
from weft.tasks.reading import read_flow
from weft.tasks.states import Completed

WORKER = "w"
RESULT = {"value": "some text that a model wrote", "tokens": 1234}


def a_task(number: int, dependencies: Sequence[int] = ()) -> dict[str, Any]:
    """A task as a document, with dependencies by number."""
    return {
        "name": f"t{number}",
        "inputs": {"n": number},
        "schemas": {"method": "noop"},
        "dependencies": [f"t{dependency}" for dependency in dependencies],
    }


def chain(size: int) -> Flow:
    """Each task depends on the one before."""
    tasks = [a_task(number, [number - 1] if number else []) for number in range(size)]
    return read_flow(tasks, new_id=new_task_id, now=NOW)


def fan_out(size: int) -> Flow:
    """All tasks are ready at once."""
    return read_flow([a_task(number) for number in range(size)], new_id=new_task_id, now=NOW)


def layers(size: int) -> Flow:
    """Ten layers; each task depends on two random ones of the layer before."""
    pick, width = random.Random(7), size // 10
    tasks = []
    for number in range(size):
        first = (number // width - 1) * width
        tasks.append(a_task(number, pick.sample(range(first, first + width), 2) if first >= 0 else []))
    return read_flow(tasks, new_id=new_task_id, now=NOW)


async def run(store: TaskStore, flow: Flow, slots: int) -> float:
    """Seconds from the first claim to the last ending."""
    await store.operate(SubmitFlow(flow, NOW), owner=EVERYONE)
    wanted = Wanted(flow=flow.root.id, worker=WORKER, now=NOW, slots=slots)
    done = 0
    claimed: Sequence[Claimed] = ()
    began = time.perf_counter()
    while done < len(flow):
        endings = [Ending(one.claim, Completed(NOW, RESULT)) for one in claimed]
        held, (outlook,) = await store.advance(endings, [wanted])
        assert all(one is True for one in held)
        done += len(held)
        claimed = outlook.claimed
        assert claimed or done == len(flow)
    return time.perf_counter() - began


async def measure(kind: str, url: str, sizes: Sequence[int]) -> None:
    """Print microseconds a task for every shape and size."""
    store = await open_store(Settings(db=url))
    try:
        await store.add_worker(WORKER, lease_until=NOW + timedelta(days=1))
        shapes = [("chain", chain(1_000), 1)]
        for size in sizes:
            shapes += [("fan-out", fan_out(size), 500), ("layers", layers(size), 500)]
        shapes.append(("fan-out", fan_out(sizes[-1]), 8))
        for name, flow, slots in shapes:
            took = await run(store, flow, slots)
            each = took / len(flow) * 1e6
            print(f"{kind:10} {name:8} {len(flow):7,} tasks, {slots:3} slots: {each:7.1f} us a task")
    finally:
        await store.close()


def main() -> None:
    """Measure both stores; sizes may be given as arguments."""
    sizes = [int(size) for size in sys.argv[1:]] or [10_000]
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure("sqlite", str(Path(folder) / "weft.db"), sizes))
    with postgresql_server() as server:
        asyncio.run(measure("postgresql", fresh_schema(server), sizes))
    print(machine())


if __name__ == "__main__":
    main()
