"""What is wrong with a task or a flow, one `Problem` per rule that is broken."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from weft.errors import RequestError
from weft.limits import MAX_SHOWN_CHARACTERS


class Problem(Struct, frozen=True):
    """One broken rule: which field, why, what was expected, what was found, and where."""

    field: str
    reason: str
    expected: Any
    actual: Any
    path: str

    def __str__(self) -> str:
        return f"{self.path or self.field}: {self.reason}"


class InvalidTasks(RequestError):
    """One or more tasks break the rules of the record protocol."""

    code = "invalid-tasks"

    def __init__(self, found: Sequence[Problem]) -> None:
        self.found = tuple(found)
        more = f" (and {len(self.found) - 1} more)" if len(self.found) > 1 else ""
        super().__init__(f"{self.found[0]}{more}")

    def problems(self) -> list[dict[str, Any]]:
        return [msgspec.to_builtins(problem) for problem in self.found]


def shown(value: Any) -> Any:
    """The value if it is short, else the start of its text: problems stay readable."""
    if isinstance(value, bool | int | float | None):
        return value
    text = value if isinstance(value, str) else repr(value)
    if len(text) <= MAX_SHOWN_CHARACTERS:
        return value
    return f"{text[:MAX_SHOWN_CHARACTERS]}..."


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint that names the known word nearest to `word`, or an empty text."""
    close = difflib.get_close_matches(word[:MAX_SHOWN_CHARACTERS], list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def joined(path: str, part: str | int) -> str:
    """The path of a part inside `path`: `a` and `b` give `a.b`, `a` and 0 give `a[0]`."""
    if isinstance(part, int):
        return f"{path}[{part}]"
    return f"{path}.{part}" if path else part
