"""What earlier tries of a step took: it must not be forgotten when the step is performed again."""

from collections.abc import Iterator
from itertools import count

from weft.runs.past import Past
from weft.tasks.record import JsonObject, Task
from weft.tasks.usage import unkept_usage


def spent_before(past: Past, key: str, task: Task) -> JsonObject:
    """The entry for the mark of a step that is performed again; empty: nothing would be forgotten."""
    return unkept_usage(task, _parts(past, key)).as_mark()


def _parts(past: Past, key: str) -> Iterator[Task]:
    """The turns of a session, and what tools gave there, that an earlier try has left."""
    numbers = count(1)
    while found := past.kept(f"{key}#{next(numbers)}"):
        yield found.task
