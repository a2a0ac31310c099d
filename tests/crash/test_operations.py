"""A process killed in the middle of an operation leaves it whole or absent."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builders import NOON, a_flow, completed
from tests.command_line import weft
from weft.app.wiring import open_store
from weft.config.settings import Settings
from weft.fault_points import FAULT_POINTS, STORE_COMMITTED
from weft.store.protocol import EVERYONE, TaskFilter
from weft.tasks.flow import Flow
from weft.tasks.operations import SubmitFlow
from weft.tasks.parsing.rules import flow_problems, node_of

SIZE = 1000


def a_large_flow() -> Flow:
    """Return a completed tree of 1,000 tasks on three levels, each dependent on the one before."""
    tasks: list[dict[str, Any]] = [
        {"name": f"t{number}", "parent_id": f"t{number // 32}", "dependencies": [f"t{number - 1}"]}
        for number in range(1, SIZE)
    ]
    tasks[0]["dependencies"] = []
    return completed(a_flow("t0", *tasks))


async def stored_flow(url: str) -> Flow:
    store = await open_store(Settings(db=url))
    try:
        return await store.operate(SubmitFlow(a_large_flow(), NOON), owner=EVERYONE)
    finally:
        await store.close()


async def other_flows(url: str, source: Flow) -> list[Flow]:
    """Return the flows in the store besides the source."""
    store = await open_store(Settings(db=url))
    try:
        roots = await store.list(TaskFilter(only_roots=True), owner=EVERYONE)
        everything = await store.list(TaskFilter(limit=0), owner=EVERYONE)
        flows = [
            await store.flow_of(root.id, owner=EVERYONE) for root in roots.tasks if root.id != source.root.id
        ]
        assert everything.total == len(source) + sum(map(len, flows)), "tasks without a root"
        kept = await store.get(source.root.id, owner=EVERYONE)
        assert kept.has_references == bool(flows)
        return flows
    finally:
        await store.close()


def assert_whole(flow: Flow) -> None:
    assert len(flow) == SIZE
    assert flow_problems([node_of(task) for task in flow]) == []


@pytest.mark.parametrize("point", FAULT_POINTS)
@pytest.mark.parametrize("operation", ["copy", "link", "archive", "mixed"])
async def test_a_kill_at_a_fault_point_leaves_the_operation_whole_or_absent(
    store_url: str, operation: str, point: str
) -> None:
    source = await stored_flow(store_url)
    root = source.root.id
    arguments = ["copy", root, "--link", list(source)[5].id] if operation == "mixed" else [operation, root]

    killed = weft("tasks", *arguments, db=store_url, WEFT_FAULT=point)

    assert killed.code == -9
    found = await other_flows(store_url, source)
    assert len(found) == (1 if point == STORE_COMMITTED else 0)
    for flow in found:
        assert_whole(flow)

    again = weft("tasks", *arguments, db=store_url)

    assert again.code == 0, again.err
    assert len(await other_flows(store_url, source)) == len(found) + 1


KILL_AT_STATEMENT = """
import asyncio, os, signal, sys
from weft.app.app import App

async def main(db, root, operation, count):
    app = await App.open(db)
    def at_statement(text):
        nonlocal count
        count -= 1
        if count == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    app.store._access._writer.set_trace_callback(at_statement)
    await getattr(app, operation)(root)

asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
"""


def killed_at_statement(url: str, root: str, operation: str, count: int) -> int:
    command = [sys.executable, "-c", KILL_AT_STATEMENT, url, root, operation, str(count)]
    return subprocess.run(command, check=False).returncode


@pytest.mark.parametrize("operation", ["copy", "link", "archive"])
@pytest.mark.parametrize("count", [5, 500, 1000, 1500, 2000])
async def test_a_kill_at_any_statement_leaves_the_operation_absent(
    tmp_path: Path, operation: str, count: int
) -> None:
    url = str(tmp_path / "weft.db")
    source = await stored_flow(url)

    assert killed_at_statement(url, source.root.id, operation, count) == -9

    assert await other_flows(url, source) == []


async def test_a_kill_while_submitting_leaves_the_flow_absent(store_url: str, tmp_path: Path) -> None:
    file = tmp_path / "flow.json"
    file.write_text('[{"name": "a"}, {"name": "b"}]')

    assert weft("flow", "submit", file, db=store_url, WEFT_FAULT="store.applied").code == -9

    assert weft("tasks", "list", "--json", db=store_url).json["total"] == 0
    assert weft("flow", "submit", file, db=store_url).code == 0
