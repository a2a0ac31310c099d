"""What the SQLite store does beyond the common contract."""

import asyncio
from pathlib import Path

import pytest

from tests.builders import NOON, a_flow
from tests.command_line import weft
from weft.app.wiring import open_store
from weft.config.settings import Settings
from weft.store.protocol import EVERYONE, TaskFilter
from weft.store.sql import load_queries
from weft.store.sqlite.connection import connect, prepare
from weft.tasks.operations import SubmitFlow


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        ("released_tasks", "tasks_in_progress (task_tree_id=? AND worker=?)"),
        ("ready_methods", "ready_tasks (task_tree_id=? AND method>?)"),
        ("ready_tasks", "ready_tasks (task_tree_id=? AND method=?)"),
        ("flow_state", "delayed_tasks (task_tree_id=? AND ready_at>?)"),
        ("end_flow", "tasks_in_progress (task_tree_id=?)"),
        ("tasks_of_worker", "tasks_in_progress"),
        ("release_all", "tasks_in_progress"),
        ("unknown_workers", "tasks_in_progress"),
    ],
)
def test_what_a_claim_asks_does_not_read_the_whole_flow(tmp_path: Path, statement: str, index: str) -> None:
    path = tmp_path / "weft.db"
    connection = connect(path, is_reader=False, synchronous="NORMAL")
    prepare(connection, path)
    text = load_queries("sqlite")[statement]
    count = max((number for number in range(1, 5) if f"?{number}" in text), default=0)

    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", [None] * count)]
    connection.close()

    assert any(step.endswith(f"INDEX {index}") for step in plan), plan
    assert not any("tasks_by_tree" in step or step == "SCAN tasks" for step in plan), plan


async def test_another_process_sees_commits_whatever_connections_come_and_go(tmp_path: Path) -> None:
    url = str(tmp_path / "weft.db")
    store = await open_store(Settings(db=url))
    try:
        await store.operate(SubmitFlow(a_flow("first"), NOON), owner=EVERYONE)
        for number in range(3):
            # A reader of ours, and a process that opens and closes the file: the last one would tidy up.
            await store.list(TaskFilter(), owner=EVERYONE)
            listed = await asyncio.to_thread(weft, "tasks", "list", "--json", db=url)
            assert listed.json["total"] == number + 1
            await store.operate(SubmitFlow(a_flow("next", prefix="bcd"[number]), NOON), owner=EVERYONE)
    finally:
        await store.close()
