"""Names and white space of XML texts, and the problems found so far."""

import re
import textwrap
from collections.abc import Callable
from typing import TypeVar

from weft.language.cel.tokens import NAME as CEL_NAME
from weft.language.diagnostics import InvalidProgram, LanguageProblem, in_order
from weft.language.source import Span

MAX_SHOWN = 60
"""How much of an offending word a message repeats, and compares with known ones: comparing is quadratic."""

BLANK = " \t\r\n"
"""What XML calls white space; Python's strip takes more."""

IDENTIFIER = re.compile(r"[^\W\d]\w*")
NAME = re.compile(r"[^\W\d]\w*(?:-\w+)*")
TEMPLATE_NAME = re.compile(r"[^\W\d]\w*(?:[-:]\w+)*")
"""May have a namespace: `user:generate-plan`."""
CALLED = re.compile(rf"{CEL_NAME.pattern}|[-+*/=<>]|[!<>]=")
"""Names of templates, of tools (`system:read_files`), of built-ins (`string-append`, `has-key?`, `+`)."""

LETTERS = {
    IDENTIFIER: "letters, digits and _",
    NAME: "letters, digits, _ and -",
    TEMPLATE_NAME: "letters, digits, _, - and :",
    CALLED: "letters, digits, _ and -",
}
"""What each of them is made of, for messages."""

LITERALS = frozenset({"true", "false", "nil", "null"})
"""Words that are values, so no names."""

_BLANK_LINES = re.compile(r"\A(?:[ \t]*\n)+")


def shown(word: str) -> str:
    """The word as a message repeats it."""
    return word if len(word) <= MAX_SHOWN else word[:MAX_SHOWN] + "..."


def dedented(text: str) -> str:
    """The text without the indentation its lines share, and without blank space around it.

    The first line begins beside the tag, so it has no say in what is shared. Tabs stay tabs.
    """
    first, newline, rest = text.partition("\n")
    return _BLANK_LINES.sub("", first.lstrip(BLANK) + newline + textwrap.dedent(rest)).rstrip(BLANK)


T = TypeVar("T")

MAX_FOUND = 100
"""Reading ends at so many problems: a hostile document could have millions."""


class Found:
    """Gathers problems, so that an author sees all of them at once."""

    def __init__(self) -> None:
        self.problems: list[LanguageProblem] = []

    def add(self, span: Span, code: str, message: str) -> None:
        """Note a problem; raises InvalidProgram with all of them when there are too many."""
        self.note(LanguageProblem(span, code, message))

    def note(self, problem: LanguageProblem) -> None:
        """Note a problem that someone else worded."""
        self.problems.append(problem)
        if len(self.problems) >= MAX_FOUND:
            self.end()

    def attempt(self, act: Callable[[], T], otherwise: T) -> T:
        """What it returns; when it refuses, its problems are noted, and `otherwise` stands for the value."""
        try:
            return act()
        except InvalidProgram as refused:
            for problem in refused.found:
                self.note(problem)
            return otherwise

    def end(self) -> None:
        """Raise InvalidProgram if there is anything."""
        if self.problems:
            raise InvalidProgram(in_order(self.problems))
