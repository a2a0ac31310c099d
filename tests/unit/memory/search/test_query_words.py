"""What a query looks for."""

from collections.abc import Iterator

import pytest

from weft.memory.protocol import QueryPart
from weft.memory.search.query import Stemmer, split_query


@pytest.fixture
def stemmer() -> Iterator[Stemmer]:
    stemmer = Stemmer()
    yield stemmer
    stemmer.close()


@pytest.mark.parametrize("name", ["event_loop", "event.loop", "event-loop", "event::loop", "event->loop"])
def test_two_words_of_one_name_count_more_together_than_two_that_only_stand_together(
    stemmer: Stemmer, name: str
) -> None:
    [joined] = split_query((QueryPart(f"the {name}"),), stemmer).pairs
    [apart] = split_query((QueryPart("the event loop"),), stemmer).pairs

    assert joined.text == apart.text == "event loop"
    assert joined.weight > apart.weight


@pytest.mark.parametrize("text", ["event, loop", "event (loop)", "event / loop", "event. Loop"])
def test_words_with_other_signs_between_them_are_no_name(stemmer: Stemmer, text: str) -> None:
    [pair] = split_query((QueryPart(text),), stemmer).pairs
    [apart] = split_query((QueryPart("event loop"),), stemmer).pairs

    assert pair.weight == apart.weight
