"""A step between its beginning and its end."""

from weft.tasks.record import Task


class OpenStep:
    """A step under way."""

    __slots__ = ("input_hash", "is_composite", "is_shown", "is_stored", "key", "parent", "task")

    def __init__(self, key: str, input_hash: str, task: Task, parent: "OpenStep | None") -> None:
        self.key = key
        self.input_hash = input_hash
        self.task = task
        self.parent = parent
        self.is_stored = False
        self.is_shown = False
        self.is_composite = False
