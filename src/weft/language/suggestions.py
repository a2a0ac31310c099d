"""The name an author may have meant."""

import difflib
from collections.abc import Iterable
from itertools import islice

from weft.limits import MAX_SUGGESTION_WORDS

ALIKE = 0.6
"""How alike a name is that is suggested beside a problem."""

NEARLY = 0.75
"""How alike names are of which one is a mistake: `plna` and `plan` are, `tests` and `steps` are not."""


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` to end a message with, or nothing."""
    found = _closest(name, known, ALIKE)
    return f"; did you mean '{found}'?" if found is not None else ""


def nearest_tool(name: str, known: Iterable[str]) -> str:
    """As `nearest`, of tools: what comes after the last colon must be alike, not only `system:` before it."""
    last = name.rpartition(":")[2]
    return nearest(name, [one for one in known if _closest(last, [one.rpartition(":")[2]], ALIKE)])


def near_miss(name: str, known: Iterable[str]) -> str | None:
    """The known name that a name is nearly."""
    return _closest(name, known, NEARLY)


def _closest(name: str, known: Iterable[str], cutoff: float) -> str | None:
    found = difflib.get_close_matches(name, list(islice(known, MAX_SUGGESTION_WORDS)), n=1, cutoff=cutoff)
    return found[0] if found else None
