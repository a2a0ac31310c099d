"""What the SQLite store does beyond the common contract."""

from pathlib import Path

import pytest

from weft.store.queries import load_queries
from weft.store.sqlite.connection import connect, prepare


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        ("given_back_tasks", "tasks_in_progress (task_tree_id=? AND worker=?)"),
        ("ready_methods", "ready_tasks (task_tree_id=? AND method>?)"),
        ("ready_tasks", "ready_tasks (task_tree_id=? AND method=?)"),
        ("outlook", "delayed_tasks (task_tree_id=? AND ready_at>?)"),
        ("end_flow", "tasks_in_progress (task_tree_id=?)"),
        ("tasks_of_worker", "tasks_in_progress"),
        ("give_back_all", "tasks_in_progress"),
        ("dead_workers", "tasks_in_progress"),
    ],
)
def test_what_a_claim_asks_does_not_read_the_whole_flow(tmp_path: Path, statement: str, index: str) -> None:
    path = tmp_path / "weft.db"
    connection = connect(path, is_reader=False, synchronous="NORMAL")
    prepare(connection, path)
    text = load_queries("sqlite")[statement]
    count = max(number for number in range(1, 5) if number == 1 or f"?{number}" in text)

    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", [None] * count)]
    connection.close()

    assert any(step.endswith(f"INDEX {index}") for step in plan), plan
    assert not any("tasks_by_tree" in step or step == "SCAN tasks" for step in plan), plan
