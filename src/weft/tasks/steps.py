"""Steps: records that a run of a program made, their `params.step`, and the usage they report."""

import re
from collections.abc import Iterable
from operator import add
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, fields

from weft.ids import TaskId
from weft.tasks.record import JsonObject, Origin, Status, Task, evolve

STEP = "step"
PROMPT = "prompt"
"""Entry of `params` that shows what the step sent: to a model, a script or memory."""
OLD_PROMPT = "asked"
"""Name of the `PROMPT` entry in older stores."""
DIGESTS_VERSION = 1
"""Must be increased when the digest of the same request changes (`weft.runs.reuse`)."""

ENDED_WITH_RUN = "not finished when its run ended"
ENDED_WITH_STEP = "not finished when the step around it ended"
"""Errors of steps that were open when their run, or the enclosing step, ended. They are stored."""

_KEY_PART = re.compile(r"(\d+)|([^\d/#!]+)|([#!])")
_LAST_POSITION = 2**62


class StoredFailure(Struct, frozen=True):
    """A failure as JSON, with its code; `weft.runs.step_records` reads it."""

    code: Any = ""
    error: Any = None


class Usage(Struct, frozen=True, omit_defaults=True):
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


class PromptPart(Struct, frozen=True, omit_defaults=True):
    """Where a part of a request to a model came from."""

    kind: str
    """`instructions`, `inputs`, `files`, `memory`, `outputs` (of earlier steps), `history`, `tools` or
    `schema`."""
    source: str | None
    """A path, the name of an input, or the field that the text stands in."""
    text: str
    """The text of the request that has the part: `system`, `data`, `prompt`, `history`, `tools`, `schema`."""
    length: int
    """Number of characters."""
    start: int | None = None
    """Position of its first character in the text; None if it is not one range."""
    tokens: int = 0
    """Estimated at four characters per token, without other parts inside of it."""


class RequestFacts(Struct, frozen=True, omit_defaults=True):
    """What is known about the requests of a model step besides their texts. It is part of no digest."""

    parts: tuple[PromptPart, ...] = ()
    """Provenance of the first request."""
    parts_left_out: int = 0
    """Number of further parts, which are not stored."""
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    """Input tokens that the provider read from its cache or wrote to it, over all turns."""
    first_token_seconds: float | None = None
    """Time from the first request to the first piece of its response; None if it was not streamed."""


class StepFields(Struct, frozen=True, kw_only=True):
    """The `params.step` of a record that a run of a program made."""

    key: str = ""
    """The step key. Empty: the record is not a step."""
    kind: str = ""
    due_at: str | None = None
    """Deadline of a question in ISO 8601: when the enclosing time limit is reached."""
    failure: StoredFailure | None = None
    """The failure that replay gives again."""
    ended_run: StoredFailure | None = None
    """The failure with which the step ended its run; a resumed run performs the step again."""
    called_off: bool = False
    """Whether the program itself has cancelled the step."""
    unfit: bool = False
    """Whether other runs must not reuse the result."""
    request: RequestFacts | None = None
    """Of a model step: where the parts of its prompt came from, and what its provider reported."""
    spent: Usage | None = None
    """The usage of earlier attempts that left no stored response."""
    link_of: TaskId | None = None
    """In an archive: the first source of a step that was a link."""
    steps: int | None = None
    limits: int | None = None
    used: Any = None
    """Of a reached limit: the operations before it, the limits in force, and what was used."""
    digests: JsonObject | None = None
    """Only in exported documents and in records imported from such a document."""


NO_FIELDS = StepFields()


def step_fields(task: Task) -> StepFields:
    """Return the decoded `params.step` of a record; all defaults if it is not a step."""
    found = (task.params or {}).get(STEP)
    if found.__class__ is not dict:
        return NO_FIELDS
    try:
        return msgspec.convert(found, StepFields)
    except msgspec.ValidationError:  # anybody can submit a record: what is malformed counts as absent
        return StepFields(**_valid_fields(found))


def _valid_fields(found: JsonObject) -> dict[str, Any]:
    valid = {}
    for field in fields(StepFields):
        try:
            if field.name in found:
                valid[field.name] = msgspec.convert(found[field.name], field.type)
        except msgspec.ValidationError:
            continue
    return valid


def with_step_fields(task: Task, **changes: Any) -> Task:
    """Return the record with changed fields in its `params.step`; None removes a field."""
    params = task.params or {}
    found = {**(params.get(STEP) or {}), **msgspec.to_builtins(changes)}
    return evolve(
        task, params={**params, STEP: {name: value for name, value in found.items() if value is not None}}
    )


def with_current_names(params: JsonObject) -> JsonObject:
    """Return the params of a record that an older version stored, with today's names."""
    if STEP not in params:
        return params
    return {PROMPT if name == OLD_PROMPT else name: value for name, value in params.items()}


def restarted_step(task: Task, spent: Usage) -> Task:
    """Return the step without the fields of its outcome, with the usage that earlier attempts spent."""
    fields = step_fields(task)
    bare = evolve(task, params={**(task.params or {}), STEP: {}})
    usage = None if spent == Usage() else spent
    return with_step_fields(bare, key=fields.key, kind=fields.kind, due_at=fields.due_at, spent=usage)


class Digests(Struct, frozen=True):
    """The digests by which a step is found on replay and for reuse."""

    asked: str
    """Digest of the request; it must be equal on replay and in a fork."""
    reuse: str | None = None
    """Digest by which other runs find the completed step; None: it is not reusable."""


def with_digests(task: Task, digests: Digests) -> Task:
    """Return the step with its digests in `params.step`, for a document that another store imports."""
    found = {"version": DIGESTS_VERSION, "asked": digests.asked, "reuse": digests.reuse}
    return with_step_fields(task, digests=found)


def digests_of(task: Task) -> Digests | None:
    """Return the digests that were imported with a step; None if it has none of the current version."""
    found = step_fields(task).digests
    if found is None or found.get("version") != DIGESTS_VERSION:
        return None
    asked, reuse = found.get("asked"), found.get("reuse")
    if not isinstance(asked, str):
        return None
    is_reusable = isinstance(reuse, str) and task.status is Status.COMPLETED
    return Digests(asked, reuse if is_reusable else None)


def ended_with_run(step: Task, run: Task) -> Task:
    """Return an open step as it is after its run has ended: cancelled and without digests."""
    return evolve(
        with_step_fields(step, digests=None),
        status=Status.CANCELLED,
        error=ENDED_WITH_RUN,
        completed_at=run.completed_at,
        updated_at=run.completed_at,
    )


def is_step(task: Task) -> bool:
    """Return whether a run of a program made the record. Engines do not claim steps."""
    return task.schemas is None and bool(step_fields(task).key)


ProgramPosition = tuple[tuple[int, str], ...]


def program_position(task: Task) -> ProgramPosition:
    """Return the position of a step in its program, as a sortable key; empty for other tasks."""
    return program_position_of_key(step_fields(task).key)


def program_position_of_key(key: str) -> ProgramPosition:
    """Return the position of a step key in its program: turns (`#`) come first, limits (`!`) last."""
    return tuple(
        (int(number), "") if number else ({"#": -1, "!": _LAST_POSITION}.get(mark, 0), word)
        for number, word, mark in _KEY_PART.findall(key)
    )


def is_model_step(task: Task) -> bool:
    """Return whether the record is a step that a model performs."""
    return step_fields(task).kind == "atomic"


def usage_of(task: Task, below: Iterable[Task] = ()) -> Usage | None:
    """Return the usage of a step and of its earlier attempts; None if no usage is recorded.

    `below` are the records below it: if the step itself has no usage yet, its turns are summed. A
    link has no usage.
    """
    if not is_model_step(task) or task.origin_type is Origin.LINK:
        return None
    own = _own_usage(task) or _sum_usage(_turn_usage(part) for part in below)
    before = step_fields(task).spent
    return own if before is None else (own or Usage()) + before


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
    failure = step_fields(task).failure
    error = failure.error if failure is not None and isinstance(failure.error, dict) else {}
    notes = (task.result or {}).get("notes") or error.get("notes") or {}
    found = notes.get("usage")
    return _parse_usage(found, int(found.get("turns", 1))) if isinstance(found, dict) else None


def _turn_usage(part: Task) -> Usage | None:
    found = (part.result or {}).get("usage")
    return _parse_usage(found, 1) if isinstance(found, dict) and step_fields(part).kind == "turn" else None


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
