"""The graphs that engines are measured with, as lists of parents: nothing of weft is imported here."""

import random
from collections.abc import Callable

LAYERS = 10

Graph = list[list[int]]
"""The parents of each task; a parent has a smaller number than its children."""


def chain(size: int) -> Graph:
    """Each task depends on the one before."""
    return [[number - 1] if number else [] for number in range(size)]


def fan_out(size: int) -> Graph:
    """Every task but the first depends on the first."""
    return [[0] if number else [] for number in range(size)]


def layers(size: int) -> Graph:
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


SHAPES: dict[str, Callable[[int], Graph]] = {"chain": chain, "fan-out": fan_out, "layers": layers}


def levels(graph: Graph) -> list[list[int]]:
    """Group the tasks by the length of the longest chain of dependencies before them."""
    depth: list[int] = []
    for parents in graph:
        depth.append(max((depth[parent] + 1 for parent in parents), default=0))
    found: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for number, level in enumerate(depth):
        found[level].append(number)
    return found
