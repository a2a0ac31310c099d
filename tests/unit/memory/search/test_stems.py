"""Stems, and which of them a text has."""

from collections.abc import Iterator

import pytest

from tests.batches import batched
from weft.memory.search.query import ACTION_WORDS, STOP_WORDS, Stemmer

ODD_WORDS = ("eyed", "aying", "dying", "flies", "oing", "ies", "naïve", "Ägypten", "x", "py3", "2nd")
"""Words whose second letter stemming changes, that become one letter, or that lose accents."""


@pytest.fixture
def stemmer() -> Iterator[Stemmer]:
    stemmer = Stemmer()
    yield stemmer
    stemmer.close()


@batched("word", sorted({*ODD_WORDS, *ACTION_WORDS, *STOP_WORDS}))
def test_a_text_has_the_stem_of_every_word_in_it(stemmer: Stemmer, word: str) -> None:
    [stem] = stemmer.stem([word.lower()])

    assert stemmer.find_stems([f"other = {word}(1)", "nothing"], {stem, "absent"}) == [{stem}, set()]


def test_a_text_has_the_stems_of_the_parts_of_its_names(stemmer: Stemmer) -> None:
    stems = {"retri", "http", "server", "timeout"}

    assert stemmer.find_stems(["HTTPServer.retry_timeout"], stems) == [stems]
