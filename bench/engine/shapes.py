"""The flows that engines are measured with: chains, fan-outs and layers of no-op tasks."""

from typing import Any

from bench.engine.graphs import SHAPES
from bench.measure import NOW
from weft.ids import new_task_id
from weft.tasks.flow import Flow
from weft.tasks.parsing.flow_parser import read_flow


def a_flow(shape: str, size: int) -> Flow:
    tasks: list[dict[str, Any]] = [
        {
            "name": f"t{number}",
            "schemas": {"method": "noop"},
            "dependencies": [f"t{parent}" for parent in parents],
        }
        for number, parents in enumerate(SHAPES[shape](size))
    ]
    return read_flow(tasks, new_id=new_task_id, now=NOW)
