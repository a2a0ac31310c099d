"""How a condition fails."""

from collections.abc import Iterable
from typing import Any

from weft.errors import AuthorError
from weft.language.cel.tokens import Places
from weft.language.diagnostics import LanguageProblem, nearest
from weft.language.source import Span
from weft.limits import MAX_SHOWN_CHARACTERS


class ConditionError(AuthorError):
    """A condition cannot be decided: a missing field, a wrong type, a number out of range."""

    code = "condition-error"

    def __init__(self, problem: LanguageProblem) -> None:
        super().__init__(problem.excerpt())
        self.problem = problem

    @property
    def span(self) -> Span:
        """Where in the condition it happened."""
        return self.problem.span

    def problems(self) -> list[dict[str, Any]]:
        """The one problem, in its JSON form."""
        return [self.problem.as_json()]


class Fault(Exception):
    """A ConditionError in the making: `&&` and `||` may absorb it, so its message is put together last."""

    def __init__(
        self, at: int, code: str, message: str, *, name: str = "", known: Iterable[str] = ()
    ) -> None:
        super().__init__(message)
        self.at = at
        self.code = code
        self.message = message
        self.name = name
        self.known = known
        """Names that there are, where `name` is not one of them."""

    def error(self, places: Places) -> ConditionError:
        """The error to be raised, with its place and the nearest known name."""
        hint = nearest(self.name, filter(_is_short, self.known)) if _is_short(self.name) else ""
        return ConditionError(LanguageProblem(places.at(self.at), self.code, self.message + hint))


class TooMuchWork(Fault):
    """The work of an evaluation is used up: nothing makes up for it."""


def _is_short(word: Any) -> bool:
    """Whether a word may be a misspelt name; comparing long texts takes long."""
    return isinstance(word, str) and 0 < len(word) <= MAX_SHOWN_CHARACTERS
