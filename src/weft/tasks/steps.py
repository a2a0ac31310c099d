"""Steps: records that the evaluation of another task made. What they are is said in `params.step`."""

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from weft.ids import TaskId
from weft.tasks.record import JsonObject, Status, Task, evolve

if TYPE_CHECKING:
    from weft.tasks.flow import Flow

STEP = "step"
KEY, KIND = "key", "kind"
DUE_AT = "due_at"
"""Until when a question can be answered, as ISO 8601: by then the time limit around it is reached."""
DIGESTS = "digests"
"""Only in documents, and in records that were read from one."""
DIGESTS_VERSION = 1
"""To be raised when digests of the same request come out differently (`weft.runs.digests`)."""

ENDED_WITH_RUN = "not finished when its run ended"
ENDED_WITH_STEP = "not finished when the step around it ended"
"""The errors of steps that were open when what they are part of ended."""

_PART = re.compile(r"(\d+)|([^\d/#!]+)|([#!])")
_LAST = 2**62


def mark_of(task: Task) -> JsonObject:
    """What the record says of the step that it is; empty: it is none."""
    found = (task.params or {}).get(STEP)
    return found if isinstance(found, dict) else {}


def first_mark(task: Task) -> JsonObject:
    """What the record said of the step when it began: nothing of how it ended."""
    return {name: value for name, value in mark_of(task).items() if name in (KEY, KIND, DUE_AT)}


class Digests(Struct, frozen=True):
    """What a step is found by when its run, or another one, asks for the same."""

    asked: str
    """Of what it asks for: on replay, and in a fork, it must be the same."""
    reuse: str | None = None
    """What other runs find it by once it is completed; None: it is not for them."""


def with_digests(task: Task, digests: Digests) -> Task:
    """The step with its digests in the mark, for a document that another store reads."""
    found = {"version": DIGESTS_VERSION, "asked": digests.asked, "reuse": digests.reuse}
    return evolve(task, params={**(task.params or {}), STEP: {**mark_of(task), DIGESTS: found}})


def digests_of(task: Task) -> Digests | None:
    """The digests that came with a step; None: there are none, or they were made in another way."""
    found = mark_of(task).get(DIGESTS)
    if not isinstance(found, dict) or found.get("version") != DIGESTS_VERSION:
        return None
    asked, reuse = found.get("asked"), found.get("reuse")
    if not isinstance(asked, str):
        return None
    is_reusable = isinstance(reuse, str) and task.status is Status.COMPLETED
    return Digests(asked, reuse if is_reusable else None)


def ended_with_run(step: Task, run: Task) -> Task:
    """Return an open step as the end of its run leaves it: without an outcome, and found by nothing."""
    mark = {name: value for name, value in mark_of(step).items() if name != DIGESTS}
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
    return task.schemas is None and bool(mark_of(task).get("key"))


Place = tuple[tuple[int, str], ...]


def place_of(task: Task) -> Place:
    """Where in its program a step stands, in a form that can be compared; empty for others."""
    return place_of_key(str(mark_of(task).get("key") or ""))


def place_of_key(key: str) -> Place:
    """Where in its program a step with this key stands: turns (`#`) before what is below, limits last."""
    return tuple(
        (int(number), "") if number else ({"#": -1, "!": _LAST}.get(mark, 0), word)
        for number, word, mark in _PART.findall(key)
    )


def makers(flow: "Flow") -> dict[TaskId, TaskId | None]:
    """For every step, and what is below one, the task whose evaluation made it; None: that is not here."""
    found: dict[TaskId, TaskId | None] = {}
    if not any(map(is_step, flow)):
        return found
    for task, _ in flow.walk():
        if task.parent_id in found:
            found[task.id] = found[task.parent_id]
        elif is_step(task):
            found[task.id] = task.parent_id
    return found
