"""Steps: records that the evaluation of another task made. What they are is said in `params.step`."""

import re
from typing import TYPE_CHECKING

from weft.ids import TaskId
from weft.tasks.record import JsonObject, Task

if TYPE_CHECKING:
    from weft.tasks.flow import Flow

STEP = "step"
KEY, KIND = "key", "kind"
DUE_AT = "due_at"
"""Until when a question can be answered, as ISO 8601: by then the time limit around it is reached."""

_PART = re.compile(r"(\d+)|([^\d/#]+)|(#)")


def mark_of(task: Task) -> JsonObject:
    """What the record says of the step that it is; empty: it is none."""
    found = (task.params or {}).get(STEP)
    return found if isinstance(found, dict) else {}


def first_mark(task: Task) -> JsonObject:
    """What the record said of the step when it began: nothing of how it ended."""
    return {name: value for name, value in mark_of(task).items() if name in (KEY, KIND, DUE_AT)}


def is_step(task: Task) -> bool:
    """Whether the evaluation of another task made the record; no engine performs it by itself."""
    return task.schemas is None and bool(mark_of(task).get("key"))


Place = tuple[tuple[int, str], ...]


def place_of(task: Task) -> Place:
    """Where in its program a step stands, in a form that can be compared; empty for others."""
    return place_of_key(str(mark_of(task).get("key") or ""))


def place_of_key(key: str) -> Place:
    """Where in its program a step with this key stands."""
    return tuple(
        (int(number), "") if number else (-1 if mark else 0, word)
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
