"""The flows that engines are measured with: chains, fan-outs and layers of no-op tasks."""

import random
from collections.abc import Callable
from typing import Any

from bench.measure import NOW
from weft.ids import new_task_id
from weft.tasks.flow import Flow
from weft.tasks.reading import read_flow

LAYERS = 10


def chain(size: int) -> list[list[int]]:
    """Each task depends on the one before."""
    return [[number - 1] if number else [] for number in range(size)]


def fan_out(size: int) -> list[list[int]]:
    """Every task but the first depends on the first."""
    return [[0] if number else [] for number in range(size)]


def layers(size: int) -> list[list[int]]:
    """Ten layers; each task has two random parents in the layer before."""
    pick = random.Random(7)
    width = size // LAYERS
    return [
        []
        if number < width
        else sorted(
            {pick.randrange((number // width - 1) * width, number // width * width) for _ in range(2)}
        )
        for number in range(size)
    ]


SHAPES: dict[str, Callable[[int], list[list[int]]]] = {"chain": chain, "fan-out": fan_out, "layers": layers}


def a_flow(shape: str, size: int) -> Flow:
    """A flow of no-op tasks of the shape."""
    tasks: list[dict[str, Any]] = [
        {
            "name": f"t{number}",
            "schemas": {"method": "noop"},
            "dependencies": [f"t{parent}" for parent in parents],
        }
        for number, parents in enumerate(SHAPES[shape](size))
    ]
    return read_flow(tasks, new_id=new_task_id, now=NOW)
