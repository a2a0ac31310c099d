"""Which pieces a task gets, in which order, in how many tokens."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.memory.context.assembly import (
    PER_PIECE,
    TOKENS_PER_FILE,
    drop_excluded,
    key_of,
    merge_ranked,
    select_fitting,
    select_meant,
)
from weft.memory.protocol import Chunk, Match


def a_match(path: str, score: float, *, text: str = "x", first: int = 1) -> Match:
    chunk = Chunk(root="/r", path=path, first_line=first, last_line=first + 1, text=text)
    return Match(chunk=chunk, score=score)


def paths(matches: list[Match]) -> list[str]:
    return [match.chunk.path for match in matches]


def test_primary_elements_come_first_then_secondary_ones_then_the_rest() -> None:
    found = [a_match("rest", 0.9), a_match("second", 0.8), a_match("first", 0.1)]

    order = merge_ranked(found, [a_match("first", 0.7)], [a_match("second", 0.9), a_match("only-here", 0.4)])

    assert paths(order) == ["first", "second", "only-here", "rest"]
    assert order[0].score == 0.1  # that of the task's own question


def test_an_element_that_is_a_path_puts_its_files_first() -> None:
    found = [a_match("src/a.py", 0.9), a_match("docs/b.md", 0.5), a_match("tests/c.py", 0.4)]

    order = merge_ranked(found, elements=(("tests/*",), ("*.md",)))

    assert paths(order) == ["tests/c.py", "docs/b.md", "src/a.py"]


async def size(text: str) -> int:
    return len(text)


def test_an_element_means_what_is_near_its_best() -> None:
    assert paths(select_meant("x", [a_match("a", 0.8), a_match("b", 0.4), a_match("c", 0.39)])) == ["a", "b"]
    assert select_meant("x", []) == []


def test_an_element_that_looks_like_a_path_means_files_that_fit_or_is_a_name() -> None:
    found = [a_match("src/node_js.py", 0.8), a_match("web/App.js", 0.1)]

    assert paths(select_meant("web/*", found)) == paths(select_meant("App.js", found)) == ["web/App.js"]
    assert paths(select_meant("Node.js", found)) == ["src/node_js.py"]
    assert select_meant("node.js", found) == []


@pytest.mark.parametrize(
    ("element", "left"),
    [
        ("Node.js", ["TCP_IP/x.py", "App.js"]),
        ("TCP/IP", ["node_js.py", "App.js"]),
        ("App.js", ["node_js.py", "TCP_IP/x.py"]),
        ("node.js", ["node_js.py", "TCP_IP/x.py", "App.js"]),
        ("app?", ["node_js.py", "TCP_IP/x.py"]),
    ],
)
def test_a_name_that_looks_like_a_path_excludes_what_is_called_so(element: str, left: list[str]) -> None:
    found = [a_match(path, 0.5) for path in ("node_js.py", "TCP_IP/x.py", "App.js")]

    assert paths(drop_excluded(found, [element], lambda root, path: None)) == left


async def test_a_piece_that_does_not_fit_is_passed_over_for_a_smaller_one() -> None:
    matches = [a_match("a", 0.9, text="x" * 50), a_match("b", 0.8, text="x" * 500), a_match("c", 0.7)]

    chosen = await select_fitting(matches, size, 50 + 1 + 2 * TOKENS_PER_FILE)

    assert paths(list(chosen.matches)) == ["a", "c"]
    assert (chosen.left_out, chosen.tokens) == (1, 51 + 2 * TOKENS_PER_FILE)


@given(
    sizes=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 400)), max_size=30),
    budget=st.integers(0, 2000),
)
def test_the_budget_is_never_exceeded(sizes: list[tuple[str, int]], budget: int) -> None:
    matches = [a_match(path, 0.5, text="x" * length, first=2 * n) for n, (path, length) in enumerate(sizes)]

    chosen = asyncio.run(select_fitting(matches, size, budget))

    files = {match.chunk.path for match in chosen.matches}
    text = sum(len(match.chunk.text) for match in chosen.matches)
    takes = text + len(files) * TOKENS_PER_FILE + (len(chosen.matches) - len(files)) * PER_PIECE
    assert takes == chosen.tokens <= budget
    assert len(chosen.matches) + chosen.left_out == len(matches)
    kept = [key_of(match.chunk) for match in chosen.matches]
    assert kept == [key for key in map(key_of, [one.chunk for one in matches]) if key in set(kept)]
