"""Task identifiers: UUID version 4 in lower-case text form."""

import os
import re
from collections.abc import Callable
from typing import NewType

TaskId = NewType("TaskId", str)

NewTaskId = Callable[[], TaskId]
"""Creates ids; passed in, so that pure code stays pure and tests choose the ids."""

UUID4_PATTERN = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$"

ANY_ID = TaskId("00000000-0000-4000-8000-000000000000")
"""Placeholder for a wrong or missing id while the other fields of a task are checked."""

LAST = "last"
"""What people write for the newest root."""

MIN_PREFIX = 4
"""Least characters of an id that stand for the whole."""

_UUID4 = re.compile(UUID4_PATTERN)
_LAST_ID = "ffffffff-ffff-4fff-bfff-ffffffffffff"


def new_task_id() -> TaskId:
    """Return a random task id, twice as fast as `uuid.uuid4`."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return TaskId(f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}")


def prefix_range(prefix: str) -> tuple[TaskId, TaskId] | None:
    """Return the first and the last id that begin with a prefix; None if no id can begin with it."""
    prefix = prefix.lower()
    first, last = (TaskId(prefix + end[len(prefix) :]) for end in (ANY_ID, _LAST_ID))
    return (first, last) if is_task_id(first) else None


def is_task_id(text: object) -> bool:
    """Return whether `text` is a UUID version 4 in its usual text form."""
    return isinstance(text, str) and _UUID4.fullmatch(text) is not None
