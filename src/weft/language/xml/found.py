"""The problems of a document as they are found."""

from collections.abc import Callable
from typing import TypeVar

from weft.language.problems import InvalidProgram, LanguageProblem, in_order
from weft.language.spans import Span

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
