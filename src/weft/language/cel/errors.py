"""Errors of conditions."""

from collections.abc import Iterable
from typing import Any

from weft.errors import AuthorError
from weft.language.cel.tokens import Locations
from weft.language.diagnostics import LanguageProblem, nearest
from weft.language.source import Span
from weft.limits import MAX_SHOWN_CHARACTERS


class ConditionError(AuthorError):
    """A condition cannot be evaluated: a missing field, a wrong type or a number out of range."""

    code = "condition-error"

    def __init__(self, problem: LanguageProblem) -> None:
        super().__init__(problem.excerpt())
        self.problem = problem

    @property
    def span(self) -> Span:
        """Return the location inside the condition."""
        return self.problem.span

    def problems(self) -> list[dict[str, Any]]:
        """Return the problem as a list, in the format of `weft check --json`."""
        return [self.problem.as_json()]


class Fault(Exception):
    """A failure during evaluation. Unless `&&` or `||` ignores it, it becomes a ConditionError."""

    def __init__(
        self, at: int, code: str, message: str, *, name: str = "", known: Iterable[str] = ()
    ) -> None:
        super().__init__(message)
        self.at = at
        """The offset in the text of the condition."""
        self.code = code
        self.message = message
        self.name = name
        self.known = known
        """The existing names, if `name` is missing; used for a suggestion."""

    def error(self, locations: Locations) -> ConditionError:
        """Return the error to raise, with its location and a suggestion."""
        hint = nearest(self.name, filter(_is_short, self.known)) if _is_short(self.name) else ""
        return ConditionError(LanguageProblem(locations.at(self.at), self.code, self.message + hint))


class TooMuchWork(Fault):
    """An evaluation exceeds its work limit; `&&` and `||` do not ignore this fault."""


def _is_short(word: Any) -> bool:
    """Return whether a word is short enough for suggestions; comparing long texts is slow."""
    return isinstance(word, str) and 0 < len(word) <= MAX_SHOWN_CHARACTERS
