"""Tests of many cases run each of them, and name each that failed: see `tests/batches.py`."""

import asyncio
import inspect
from typing import Any

import pytest

from tests.batches import Case, batched


def batches_of(test: Any) -> list[list[Case]]:
    """Return the batches that pytest passes to a test, in order."""
    (mark,) = test.pytestmark
    found: list[list[Case]] = mark.args[1]
    return found


def test_every_case_is_run_once_and_gets_the_fixtures_of_the_test() -> None:
    seen = []

    @batched("number, text", [(1, "a"), (2, "b"), pytest.param(3, "c", id="third")], size=2)
    def check(number: int, text: str, folder: str) -> None:
        seen.append((number, text, folder))

    assert list(inspect.signature(check).parameters) == ["batch", "folder"]
    for batch in batches_of(check):
        check(batch=batch, folder="here")

    assert [len(batch) for batch in batches_of(check)] == [2, 1]
    assert seen == [(1, "a", "here"), (2, "b", "here"), (3, "c", "here")]


@pytest.mark.parametrize("is_async", [False, True])
def test_each_case_that_fails_is_named_and_the_others_are_run(is_async: bool) -> None:
    seen = []

    def look_at(number: int) -> None:
        seen.append(number)
        assert number % 2, f"{number} is even"
        if number == 3:
            raise ValueError("three")

    async def look_later(number: int) -> None:
        look_at(number)

    check = batched("number", [1, 2, 3, 4], ids=lambda number: f"n{number}")(
        look_later if is_async else look_at
    )

    (batch,) = batches_of(check)
    with pytest.raises(pytest.fail.Exception) as caught:
        asyncio.run(check(batch=batch)) if is_async else check(batch=batch)

    told = str(caught.value)
    assert told.startswith("3 of 4 cases failed")
    for part in ("case 1 (n2)", "2 is even", "case 2 (n3)", "ValueError: three", "case 3 (n4)", "4 is even"):
        assert part in told
    assert "tests/batches.py" not in told
    assert seen == [1, 2, 3, 4]


def test_a_case_of_too_many_or_too_few_values_is_refused() -> None:
    with pytest.raises(AssertionError, match="case 1 has 1 values"):
        batched("a, b", [(1, 2), (3,)])
