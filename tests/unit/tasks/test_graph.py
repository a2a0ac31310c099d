"""Walks over graphs of ids."""

import pytest

from weft.ids import TaskId
from weft.tasks.flow import find_cycles, reachable, reverse


def graph(text: str) -> dict[TaskId, list[TaskId]]:
    """`a:bc d:` is a graph in which a leads to b and c, and d to nothing."""
    edges = (part.split(":") for part in text.split())
    return {TaskId(node): [TaskId(target) for target in targets] for node, targets in edges}


@pytest.mark.parametrize(
    ("edges", "cycles"),
    [
        ("", []),
        ("a:", []),
        ("a:b b:c c:", []),
        ("a:bc b:d c:d d:", []),
        ("a:x", []),
        ("a:a", ["a"]),
        ("a:b b:a", ["ab"]),
        ("z:a a:b b:c c:a", ["abc"]),
        ("a:b b:a c:d d:c", ["ab", "cd"]),
        ("a:bb b:", []),
        ("a:bb b:a", ["ab"]),
        ("a:xb b:xa", ["ab"]),
        ("a:b b:ac c:d d:", ["ab"]),
        ("a:b b:c c:bd d:", ["bc"]),
    ],
)
def test_cycles_are_found_and_given_in_edge_order(edges: str, cycles: list[str]) -> None:
    assert ["".join(cycle) for cycle in find_cycles(graph(edges))] == cycles


def test_a_knot_of_cycles_gives_at_least_one() -> None:
    found = find_cycles(graph("a:bc b:a c:a"))

    assert len(found) == 1


@pytest.mark.parametrize(
    ("edges", "turned"),
    [("a:b b:", {"b": ["a"]}), ("a:c b:c c:", {"c": ["a", "b"]}), ("a:x", {}), ("a:a", {"a": ["a"]})],
)
def test_reversing_turns_every_edge_between_known_nodes(edges: str, turned: dict[str, list[str]]) -> None:
    assert reverse(graph(edges)) == turned


@pytest.mark.parametrize(
    ("edges", "starts", "found"),
    [
        ("a:bc b:d c:d d:", "a", "abcd"),
        ("a:b b:a", "b", "ba"),
        ("a:b b: c:d d:", "ca", "cadb"),
        ("a:", "z", "z"),
        ("a:b b:", "aa", "ab"),
        ("a:b b:", "", ""),
    ],
)
def test_what_is_reachable_is_given_once_starts_first_and_nearest_first(
    edges: str, starts: str, found: str
) -> None:
    assert "".join(reachable(map(TaskId, starts), graph(edges))) == found


@pytest.mark.parametrize("is_ring", [False, True])
def test_a_chain_of_20_000_is_walked(is_ring: bool) -> None:
    size = 20_000
    edges = {TaskId(str(number)): [TaskId(str(number + 1))] for number in range(size)}
    edges[TaskId(str(size))] = [TaskId("0")] if is_ring else []

    cycles = find_cycles(edges)

    assert [len(cycle) for cycle in cycles] == ([size + 1] if is_ring else [])
    assert len(reachable([TaskId("0")], edges)) == size + 1
