"""The recorded scientific workflows of the shared data, as flows."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1].parent / "shared" / "data" / "workflow-dags"

GRAPHS = sorted(file.stem for file in FOLDER.glob("*.json"))


def recorded_tasks(name: str) -> list[dict[str, Any]]:
    """Return the tasks of a recorded workflow: id, parents, runtime_seconds."""
    tasks: list[dict[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text())["tasks"]
    return tasks


def as_document(tasks: list[dict[str, Any]], *, scale: float) -> list[dict[str, Any]]:
    """Return a flow of sleeps as long as the recorded tasks, scaled."""
    return [
        {
            "name": task["id"],
            "schemas": {"method": "sleep"},
            "inputs": {"seconds": task["runtime_seconds"] * scale},
            "dependencies": task["parents"],
        }
        for task in tasks
    ]
