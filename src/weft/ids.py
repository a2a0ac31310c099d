"""Task identifiers: UUID version 4 in lower-case text form."""

import os
import re
from collections.abc import Callable
from typing import NewType

TaskId = NewType("TaskId", str)

NewTaskId = Callable[[], TaskId]
"""What makes fresh ids; passed in, so that pure code stays pure and tests choose the ids."""

UUID4_PATTERN = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$"

ANY_ID = TaskId("00000000-0000-4000-8000-000000000000")
"""Stands for an id that is wrong or missing while the rest of a task is looked at."""

_UUID4 = re.compile(UUID4_PATTERN)


def new_task_id() -> TaskId:
    """A fresh random task id; `uuid.uuid4` makes the same, by way of a number, in twice the time."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return TaskId(f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}")


def is_task_id(text: object) -> bool:
    """Whether `text` is a UUID version 4 in its usual text form."""
    return isinstance(text, str) and _UUID4.fullmatch(text) is not None
