"""What is wrong with a task or a flow, one `Problem` per rule that is broken."""

import difflib
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from weft.errors import RequestError
from weft.limits import MAX_SHOWN_CHARACTERS, MAX_SUGGESTION_WORDS
from weft.secrets.registry import redact
from weft.tasks.json_text import is_json


class Problem(Struct, frozen=True):
    """One broken rule: which field, why, what was expected, what was found, and where."""

    field: str
    reason: str
    expected: Any
    actual: Any
    path: str

    def __str__(self) -> str:
        return f"{self.path or self.field}: {self.reason}"


class SeveralProblems(RequestError):
    """One or more rules are broken."""

    code = "several-problems"

    def __init__(self, found: Sequence[Problem]) -> None:
        self.found = tuple(found)
        more = f" (and {len(self.found) - 1} more)" if len(self.found) > 1 else ""
        super().__init__(f"{self.headline(self.found[0])}{more}")

    def headline(self, problem: Problem) -> str:
        """The first problem, in the words of the message."""
        return str(problem)

    def problems(self) -> list[dict[str, Any]]:
        return [msgspec.to_builtins(problem) for problem in self.found]


class InvalidTasks(SeveralProblems):
    """One or more tasks break the rules of the record protocol."""

    code = "invalid-tasks"


def shown(value: Any) -> Any:
    """The value if it is short, else the start of its text: problems stay readable, and are always JSON."""
    if isinstance(value, bool | float | None):
        return value
    text = value if isinstance(value, str) else _text(value)
    clean = redact(text)  # before it is cut: half of a secret is not known as one
    if clean is not text and clean != text:
        value = text = clean
    if len(text) > MAX_SHOWN_CHARACTERS:
        return printable(f"{text[:MAX_SHOWN_CHARACTERS]}...")
    return value if is_json(value) else printable(text)


def printable(text: str) -> str:
    """The text with lone surrogates spelled out, which no encoding could write."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _text(value: object) -> str:
    try:
        return repr(value)
    except (RecursionError, ValueError):  # nested too deeply, an integer of thousands of digits
        return f"{type(value).__name__} too large to show"


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint that names the known word nearest to `word`, or an empty text."""
    words = list(itertools.islice(known, MAX_SUGGESTION_WORDS))
    close = difflib.get_close_matches(word[:MAX_SHOWN_CHARACTERS], words, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def joined(path: str, part: str | int) -> str:
    """The path of a part inside `path`: `a` and `b` give `a.b`, `a` and 0 give `a[0]`."""
    if isinstance(part, int):
        return f"{path}[{part}]"
    return f"{path}.{part}" if path else part
