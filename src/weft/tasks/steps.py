"""Steps: records that a program run made, their `params.step`, and the usage they report."""

import re
from collections.abc import Iterable
from operator import add

from msgspec import Struct
from msgspec.structs import astuple

from weft.tasks.record import JsonObject, Origin, Status, Task, evolve

STEP = "step"
KEY, KIND = "key", "kind"
DUE_AT = "due_at"
"""Until when a question can be answered, as ISO 8601: by then the time limit around it is reached."""
DIGESTS = "digests"
"""Only in documents, and in records that were read from one."""
DIGESTS_VERSION = 1
"""To be raised when digests of the same request come out differently (`weft.runs.reuse`)."""

ENDED_WITH_RUN = "not finished when its run ended"
ENDED_WITH_STEP = "not finished when the step around it ended"
"""The errors of steps that were open when what they are part of ended."""

_PART = re.compile(r"(\d+)|([^\d/#!]+)|([#!])")
_LAST = 2**62


def step_fields(task: Task) -> JsonObject:
    """What the record says of the step that it is; empty: it is none."""
    found = (task.params or {}).get(STEP)
    return found if isinstance(found, dict) else {}


def first_mark(task: Task) -> JsonObject:
    """What the record said of the step when it began: nothing of how it ended."""
    return {name: value for name, value in step_fields(task).items() if name in (KEY, KIND, DUE_AT)}


class Digests(Struct, frozen=True):
    """What a step is found by when its run, or another one, asks for the same."""

    asked: str
    """Of what it asks for: on replay, and in a fork, it must be the same."""
    reuse: str | None = None
    """What other runs find it by once it is completed; None: it is not for them."""


def with_digests(task: Task, digests: Digests) -> Task:
    """The step with its digests in the mark, for a document that another store reads."""
    found = {"version": DIGESTS_VERSION, "asked": digests.asked, "reuse": digests.reuse}
    return evolve(task, params={**(task.params or {}), STEP: {**step_fields(task), DIGESTS: found}})


def digests_of(task: Task) -> Digests | None:
    """The digests that came with a step; None: there are none, or they were made in another way."""
    found = step_fields(task).get(DIGESTS)
    if not isinstance(found, dict) or found.get("version") != DIGESTS_VERSION:
        return None
    asked, reuse = found.get("asked"), found.get("reuse")
    if not isinstance(asked, str):
        return None
    is_reusable = isinstance(reuse, str) and task.status is Status.COMPLETED
    return Digests(asked, reuse if is_reusable else None)


def ended_with_run(step: Task, run: Task) -> Task:
    """Return an open step as the end of its run leaves it: without an outcome, and found by nothing."""
    mark = {name: value for name, value in step_fields(step).items() if name != DIGESTS}
    return evolve(
        step,
        status=Status.CANCELLED,
        error=ENDED_WITH_RUN,
        params={**(step.params or {}), STEP: mark},
        completed_at=run.completed_at,
        updated_at=run.completed_at,
    )


def is_step(task: Task) -> bool:
    """Whether the evaluation of another task made the record; no engine performs it by itself."""
    return task.schemas is None and bool(step_fields(task).get("key"))


Place = tuple[tuple[int, str], ...]


def place_of(task: Task) -> Place:
    """Where in its program a step stands, in a form that can be compared; empty for others."""
    return place_of_key(str(step_fields(task).get("key") or ""))


def place_of_key(key: str) -> Place:
    """Where in its program a step with this key stands: turns (`#`) before what is below, limits last."""
    return tuple(
        (int(number), "") if number else ({"#": -1, "!": _LAST}.get(mark, 0), word)
        for number, word, mark in _PART.findall(key)
    )


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
    return step_fields(task).get("kind") == "atomic"


def usage_of(task: Task, below: Iterable[Task] = ()) -> Usage | None:
    """What a step took, and tries of it before; None: it is not known to have taken anything.

    `below` are the records below it: of a session that has not come to an end, its turns say what it took. A
    link took nothing.
    """
    if not is_answer(task) or task.origin_type is Origin.LINK:
        return None
    own = _told(task) or _sum(_turn(part) for part in below)
    before = step_fields(task).get(SPENT)
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
    failure = (step_fields(task).get("failure") or {}).get("error") or {}
    notes = (task.result or {}).get("notes") or failure.get("notes") or {}
    found = notes.get("usage")
    return _read(found, int(found.get("turns", 1))) if isinstance(found, dict) else None


def _turn(part: Task) -> Usage | None:
    found = (part.result or {}).get("usage")
    return _read(found, 1) if isinstance(found, dict) and step_fields(part).get("kind") == "turn" else None


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
