"""Steps: records that the evaluation of another task made. What they are is said in `params.step`."""

import re

from weft.tasks.record import JsonObject, Task

STEP = "step"

_PART = re.compile(r"(\d+)|([^\d/#]+)|(#)")


def mark_of(task: Task) -> JsonObject:
    """What the record says of the step that it is; empty: it is none."""
    found = (task.params or {}).get(STEP)
    return found if isinstance(found, dict) else {}


def is_step(task: Task) -> bool:
    """Whether the evaluation of another task made the record; no engine performs it by itself."""
    return bool(mark_of(task).get("key"))


def place_of(task: Task) -> tuple[tuple[int, str], ...]:
    """Where in its program a step stands, in a form that can be compared; empty for others."""
    key = str(mark_of(task).get("key") or "")
    return tuple(
        (int(number), "") if number else (-1 if mark else 0, word)
        for number, word, mark in _PART.findall(key)
    )
