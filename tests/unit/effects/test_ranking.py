"""A model's second look at what was found, with a model that is scripted by a function."""

from typing import Any

import pytest

from weft.effects.ranking import (
    MAX_CANDIDATES,
    MAX_IN_CALL,
    Candidate,
    RankingFailed,
    RankRequest,
    batches,
    candidate_of,
    rerank,
)
from weft.memory.protocol import Chunk, Match


async def size(text: str) -> int:
    return len(text)


def matches(count: int, text: str = "text") -> list[Match]:
    return [
        Match(
            chunk=Chunk(root="/r", path=f"f{n}.py", first_line=1, last_line=9, text=text),
            score=1 - n / count,
            why={"content": ("word",)},
        )
        for n in range(count)
    ]


def paths(found: tuple[Match, ...]) -> list[str]:
    return [match.chunk.path for match in found]


async def test_the_model_decides_the_order_and_scores_stay_sorted() -> None:
    asked: list[RankRequest] = []

    async def ask(request: RankRequest) -> Any:
        asked.append(request)
        return {"relevant": ["f2.py:1-9", "f0.py:1-9", "f2.py:1-9", "invented.py:1-9", 7]}

    found = await rerank(matches(4), "the task", ask, size, None)

    assert paths(found.matches) == ["f2.py", "f0.py", "f1.py", "f3.py"]
    assert [match.score for match in found.matches] == [1.0, 0.75, 0.5, 0.25]
    assert found.matches[0].why == {"content": ("word",), "model": ("rank 1",)}
    assert found.matches[3].why == {"content": ("word",)}
    (request,) = asked
    ids = request.schema["properties"]["relevant"]["items"]["enum"]
    assert ids == [f"f{n}.py:1-9" for n in range(4)] == [one.id for one in request.candidates]
    assert "the task" in request.prompt
    assert not any(one.id in request.prompt for one in request.candidates)


async def test_batches_fit_the_room_and_are_merged_by_rank() -> None:
    sizes: list[int] = []

    async def ask(request: RankRequest) -> Any:
        sizes.append(len(request.candidates))
        return {"relevant": [one.id for one in reversed(request.candidates)][:2]}

    every = matches(7)
    room = 3 * (4 + 3 * len("f0.py:1-9") + 24)
    found = await rerank(every, "t", ask, size, room)

    assert sizes == [3, 3, 1]
    assert found.calls == 3
    assert paths(found.matches) == ["f2.py", "f5.py", "f6.py", "f1.py", "f4.py", "f0.py", "f3.py"]


async def test_a_model_that_fails_leaves_the_order_with_a_warning() -> None:
    answers: list[Any] = [{"relevant": ["f3.py:1-9"]}, RankingFailed("it is asleep")]

    async def ask(request: RankRequest) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    found = await rerank(matches(MAX_IN_CALL + 1), "t", ask, size, None)

    assert list(found.matches) == matches(MAX_IN_CALL + 1)
    assert found.warnings == ("the matches of memory were not ranked by the model: it is asleep",)


@pytest.mark.parametrize("answer", [None, [], {}, {"relevant": "f1"}, "x"])
async def test_an_answer_of_the_wrong_shape_is_a_failure(answer: Any) -> None:
    async def ask(_: RankRequest) -> Any:
        return answer

    found = await rerank(matches(3), "t", ask, size, None)

    assert (paths(found.matches), len(found.warnings)) == (["f0.py", "f1.py", "f2.py"], 1)


async def test_how_much_is_looked_at_is_bounded() -> None:
    seen: list[str] = []

    async def ask(request: RankRequest) -> Any:
        seen.extend(one.id for one in request.candidates)
        assert len(request.candidates) <= MAX_IN_CALL
        assert all(len(one.text) < 700 for one in request.candidates)
        return {"relevant": []}

    every = matches(MAX_CANDIDATES + 40, text="x" * 100_000)
    found = await rerank(every, "t", ask, size, 10_000)

    assert len(seen) == MAX_CANDIDATES
    assert list(found.matches) == every


async def test_a_piece_that_does_not_fit_alone_is_shown_by_its_name() -> None:
    big, small = Candidate("a", "x" * 500), Candidate("b", "y")

    assert [batch async for batch in batches([big, small], size, 60)] == [(Candidate("a", ""), small)]


async def test_pieces_of_the_same_name_are_shown_once() -> None:
    twice = [candidate_of(match) for match in (*matches(2), *matches(1))]

    assert [one.id async for batch in batches(twice, size, None) for one in batch] == [
        "f0.py:1-9",
        "f1.py:1-9",
    ]
