"""Steps: records that a run of a program made, their `params.step`, and the usage they report."""

import re
from collections.abc import Iterable
from operator import add

from msgspec import Struct
from msgspec.structs import astuple

from weft.tasks.record import JsonObject, Origin, Status, Task, evolve

STEP = "step"
KEY, KIND = "key", "kind"
DUE_AT = "due_at"
"""Deadline of a question in ISO 8601: when the enclosing time limit is reached."""
PROMPT = "prompt"
"""Entry of `params` that shows what the step sent: to a model, a script or memory."""
OLD_PROMPT = "asked"
"""Name of the `PROMPT` entry in older stores."""
DIGESTS = "digests"
"""Entry of `params.step`, only in exported documents and in records imported from such a document."""
DIGESTS_VERSION = 1
"""Must be increased when the digest of the same request changes (`weft.runs.reuse`)."""

ENDED_WITH_RUN = "not finished when its run ended"
ENDED_WITH_STEP = "not finished when the step around it ended"
"""Errors of steps that were open when their run, or the enclosing step, ended. They are stored."""

_KEY_PART = re.compile(r"(\d+)|([^\d/#!]+)|([#!])")
_LAST_POSITION = 2**62


def step_fields(task: Task) -> JsonObject:
    """Return the `params.step` of a record; empty if it is not a step."""
    found = (task.params or {}).get(STEP)
    return found if isinstance(found, dict) else {}


def with_current_names(params: JsonObject) -> JsonObject:
    """Return the params of a record that an older version stored, with today's names."""
    if STEP not in params:
        return params
    return {PROMPT if name == OLD_PROMPT else name: value for name, value in params.items()}


def initial_step_fields(task: Task) -> JsonObject:
    """Return the fields of a step as they were when it started, without those of its outcome."""
    return {name: value for name, value in step_fields(task).items() if name in (KEY, KIND, DUE_AT)}


class Digests(Struct, frozen=True):
    """The digests by which a step is found on replay and for reuse."""

    asked: str
    """Digest of the request; it must be equal on replay and in a fork."""
    reuse: str | None = None
    """Digest by which other runs find the completed step; None: it is not reusable."""


def with_digests(task: Task, digests: Digests) -> Task:
    """Return the step with its digests in `params.step`, for a document that another store imports."""
    found = {"version": DIGESTS_VERSION, "asked": digests.asked, "reuse": digests.reuse}
    return evolve(task, params={**(task.params or {}), STEP: {**step_fields(task), DIGESTS: found}})


def digests_of(task: Task) -> Digests | None:
    """Return the digests that were imported with a step; None if it has none of the current version."""
    found = step_fields(task).get(DIGESTS)
    if not isinstance(found, dict) or found.get("version") != DIGESTS_VERSION:
        return None
    asked, reuse = found.get("asked"), found.get("reuse")
    if not isinstance(asked, str):
        return None
    is_reusable = isinstance(reuse, str) and task.status is Status.COMPLETED
    return Digests(asked, reuse if is_reusable else None)


def ended_with_run(step: Task, run: Task) -> Task:
    """Return an open step as it is after its run has ended: cancelled and without digests."""
    fields = {name: value for name, value in step_fields(step).items() if name != DIGESTS}
    return evolve(
        step,
        status=Status.CANCELLED,
        error=ENDED_WITH_RUN,
        params={**(step.params or {}), STEP: fields},
        completed_at=run.completed_at,
        updated_at=run.completed_at,
    )


def is_step(task: Task) -> bool:
    """Return whether a run of a program made the record. Engines do not claim steps."""
    return task.schemas is None and bool(step_fields(task).get("key"))


ProgramPosition = tuple[tuple[int, str], ...]


def program_position(task: Task) -> ProgramPosition:
    """Return the position of a step in its program, as a sortable key; empty for other tasks."""
    return program_position_of_key(str(step_fields(task).get("key") or ""))


def program_position_of_key(key: str) -> ProgramPosition:
    """Return the position of a step key in its program: turns (`#`) come first, limits (`!`) last."""
    return tuple(
        (int(number), "") if number else ({"#": -1, "!": _LAST_POSITION}.get(mark, 0), word)
        for number, word, mark in _KEY_PART.findall(key)
    )


SPENT = "spent"
"""The entry of `params.step` with the usage of earlier attempts that left no stored response."""


class Usage(Struct, frozen=True):
    """Tokens and cost of model turns."""

    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    """US dollars, for the turns with a known price."""
    unpriced: int = 0
    """Turns without a known price."""

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*map(add, astuple(self), astuple(other)))

    def beyond(self, other: "Usage") -> "Usage":
        """Return the usage minus `other`, at least 0 in each field."""
        return Usage(
            *(max(0, mine - theirs) for mine, theirs in zip(astuple(self), astuple(other), strict=True))
        )

    def as_step_fields(self) -> JsonObject:
        """Return the usage as an entry of `params.step`; empty if it is zero."""
        spent = {name: value for name in self.__struct_fields__ if (value := getattr(self, name))}
        return {SPENT: spent} if spent else {}


def is_model_step(task: Task) -> bool:
    """Return whether the record is a step that a model performs."""
    return step_fields(task).get("kind") == "atomic"


def usage_of(task: Task, below: Iterable[Task] = ()) -> Usage | None:
    """Return the usage of a step and of its earlier attempts; None if no usage is recorded.

    `below` are the records below it: if the step itself has no usage yet, its turns are summed. A
    link has no usage.
    """
    if not is_model_step(task) or task.origin_type is Origin.LINK:
        return None
    own = _own_usage(task) or _sum_usage(_turn_usage(part) for part in below)
    before = step_fields(task).get(SPENT)
    if isinstance(before, dict):
        own = (own or Usage()) + Usage(**{name: before.get(name, 0) for name in Usage.__struct_fields__})
    return own


def has_own_usage(task: Task) -> bool:
    """Return whether a step itself records the usage of all its turns."""
    return is_model_step(task) and task.origin_type is not Origin.LINK and _own_usage(task) is not None


def unrecorded_usage(task: Task, below: Iterable[Task]) -> Usage:
    """Return the usage of a retried step that is not recorded in its stored turns."""
    if not is_model_step(task):
        return Usage()
    below = list(below)
    return (usage_of(task, below) or Usage()).beyond(
        _sum_usage(_turn_usage(part) for part in below) or Usage()
    )


def _own_usage(task: Task) -> Usage | None:
    """Return the usage in the step's result or failure; None if there is no usage."""
    failure = (step_fields(task).get("failure") or {}).get("error") or {}
    notes = (task.result or {}).get("notes") or failure.get("notes") or {}
    found = notes.get("usage")
    return _parse_usage(found, int(found.get("turns", 1))) if isinstance(found, dict) else None


def _turn_usage(part: Task) -> Usage | None:
    found = (part.result or {}).get("usage")
    return (
        _parse_usage(found, 1)
        if isinstance(found, dict) and step_fields(part).get("kind") == "turn"
        else None
    )


def _parse_usage(found: JsonObject, turns: int) -> Usage:
    cost = found.get("cost")
    return Usage(
        turns=turns,
        input_tokens=int(found.get("input_tokens", 0)),
        output_tokens=int(found.get("output_tokens", 0)),
        cost=cost or 0.0,
        unpriced=turns if cost is None else 0,
    )


def _sum_usage(each: Iterable[Usage | None]) -> Usage | None:
    found = [usage for usage in each if usage is not None]
    return sum(found[1:], found[0]) if found else None
