"""How well a chunk fits a word."""

import pytest

from weft.memory.search.lookup import BM25_K1, K1, with_our_k1


def bm25(times: float, length: float, k1: float) -> float:
    """Without how rare the word is; `length` is 1 for a chunk of middling length."""
    return (k1 + 1) * times / (times + k1 * (0.25 + 0.75 * length))


@pytest.mark.parametrize("times", [1, 2, 7, 1_000_000])
@pytest.mark.parametrize("length", [0.1, 1, 4])
def test_what_sqlite_gives_is_turned_into_bm25_with_our_k1(times: float, length: float) -> None:
    assert with_our_k1(bm25(times, length, BM25_K1)) == pytest.approx(bm25(times, length, K1))


def test_a_fit_that_is_rounded_above_the_largest_is_the_largest() -> None:
    assert with_our_k1(BM25_K1 + 1 + 1e-12) == pytest.approx(K1 + 1)
