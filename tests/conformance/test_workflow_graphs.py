"""Recorded scientific workflows run in the order of their graphs."""

from pathlib import Path

import pytest

from tests.shared_graphs import GRAPHS, as_document, recorded_tasks
from weft.app.app import App
from weft.engine.limits import EngineLimits
from weft.store.protocol import EventFilter

if not GRAPHS:
    pytest.skip("the shared workflow graphs are not here", allow_module_level=True)


@pytest.mark.parametrize("graph", GRAPHS)
async def test_no_task_starts_before_its_parents_are_complete(graph: str, tmp_path: Path) -> None:
    recorded = recorded_tasks(graph)
    async with await App.open(tmp_path / "weft.db", limits=EngineLimits(concurrency=20)) as app:
        summary = await app.run(as_document(recorded, scale=0.0))
        flow = await app.flow_of(summary.root_id)
        events = await app.events(EventFilter(tree=summary.root_id, limit=1_000_000))

    assert summary.counts == {"completed": len(recorded)}
    names = {task.id: task.name for task in flow}
    started = {names[event.task_id]: event.seq for event in events if event.type.value == "task.started"}
    completed = {names[event.task_id]: event.seq for event in events if event.type.value == "task.completed"}
    assert len(started) == len(completed) == len(recorded)
    for task in recorded:
        for parent in task["parents"]:
            assert completed[parent] < started[task["id"]]
