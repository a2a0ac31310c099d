"""The name an author may have meant."""

import difflib
from collections.abc import Iterable
from itertools import islice

from weft.limits import MAX_SUGGESTION_WORDS


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` to end a message with, or nothing."""
    found = difflib.get_close_matches(name, list(islice(known, MAX_SUGGESTION_WORDS)), n=1, cutoff=0.6)
    return f"; did you mean '{found[0]}'?" if found else ""
