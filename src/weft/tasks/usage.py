"""What the answers of models took, as the records of steps say."""

from collections.abc import Iterable
from operator import add

from msgspec import Struct
from msgspec.structs import astuple

from weft.tasks.record import JsonObject, Origin, Task
from weft.tasks.steps import mark_of

SPENT = "spent"
"""The entry of a step's mark that says what earlier tries took whose answers were not kept."""


class Usage(Struct, frozen=True):
    """Tokens and money for some turns of models."""

    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    """US dollars for those turns whose price is known."""
    unpriced: int = 0
    """Turns without a known price."""

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*map(add, astuple(self), astuple(other)))

    def beyond(self, other: "Usage") -> "Usage":
        """What of it the other does not have."""
        return Usage(
            *(max(0, mine - theirs) for mine, theirs in zip(astuple(self), astuple(other), strict=True))
        )

    def as_mark(self) -> JsonObject:
        """For the mark of a step; empty: nothing was spent."""
        spent = {name: value for name in self.__struct_fields__ if (value := getattr(self, name))}
        return {SPENT: spent} if spent else {}


def is_answer(task: Task) -> bool:
    """Whether a record is of a step that a model answers."""
    return mark_of(task).get("kind") == "atomic"


def usage_of(task: Task, below: Iterable[Task] = ()) -> Usage | None:
    """What a step took, and tries of it before; None: it is not known to have taken anything.

    `below` are the records below it: of a session that has not come to an end, its turns say what it took. A
    link took nothing.
    """
    if not is_answer(task) or task.origin_type is Origin.LINK:
        return None
    own = _told(task) or _sum(_turn(part) for part in below)
    before = mark_of(task).get(SPENT)
    if isinstance(before, dict):
        own = (own or Usage()) + Usage(**{name: before.get(name, 0) for name in Usage.__struct_fields__})
    return own


def has_told_usage(task: Task) -> bool:
    """Return whether a step says itself what it took, all its turns together."""
    return is_answer(task) and task.origin_type is not Origin.LINK and _told(task) is not None


def unkept_usage(task: Task, below: Iterable[Task]) -> Usage:
    """What of a step that is tried again would be forgotten: all but what its kept turns took."""
    if not is_answer(task):
        return Usage()
    below = list(below)
    return (usage_of(task, below) or Usage()).beyond(_sum(_turn(part) for part in below) or Usage())


def _told(task: Task) -> Usage | None:
    """What the result says, or the failure."""
    failure = (mark_of(task).get("failure") or {}).get("error") or {}
    notes = (task.result or {}).get("notes") or failure.get("notes") or {}
    found = notes.get("usage")
    return _read(found, int(found.get("turns", 1))) if isinstance(found, dict) else None


def _turn(part: Task) -> Usage | None:
    found = (part.result or {}).get("usage")
    return _read(found, 1) if isinstance(found, dict) and mark_of(part).get("kind") == "turn" else None


def _read(found: JsonObject, turns: int) -> Usage:
    cost = found.get("cost")
    return Usage(
        turns=turns,
        input_tokens=int(found.get("input_tokens", 0)),
        output_tokens=int(found.get("output_tokens", 0)),
        cost=cost or 0.0,
        unpriced=turns if cost is None else 0,
    )


def _sum(each: Iterable[Usage | None]) -> Usage | None:
    found = [one for one in each if one is not None]
    return sum(found[1:], found[0]) if found else None
