"""Problems of a program, the error that carries them, and suggestions for misspelled names."""

import difflib
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Struct

from weft.errors import AuthorError
from weft.language.source import Span
from weft.limits import MAX_SUGGESTION_WORDS, MAX_SUGGESTIONS

if TYPE_CHECKING:
    from weft.language.ast import Program


MAX_SHOWN = 20
"""How many problems a message lists; further ones are only counted."""


class LanguageProblem(Struct, frozen=True):
    """One mistake in a program, with its location."""

    span: Span
    code: str
    """Stable and kebab-case: `unbound-name`, `wrong-arity`, `context-conflict`, `xml-doctype` ..."""
    message: str

    def __str__(self) -> str:
        return f"{self.span}: {self.code}: {self.message}"

    def as_json(self) -> dict[str, Any]:
        """Return the problem in the format of `weft check --json`."""
        location = {"file": self.span.source.name, "line": self.span.line, "column": self.span.column}
        return {**location, "code": self.code, "message": self.message}

    def excerpt(self) -> str:
        """Return the message, the source line if it is known, and a caret under the location."""
        line = self.span.source.line(self.span.line).expandtabs(1)
        if not line.strip() or not self.span.column:
            return str(self)
        start = max(0, self.span.column - 60)
        return f"{self}\n  {line[start : start + 100]}\n  {' ' * (self.span.column - 1 - start)}^"


class PartialProgram(Struct, frozen=True):
    """The readable forms of a program with syntax errors, so that they can still be checked."""

    program: "Program"
    mentioned: frozenset[str]
    """Names in the forms with syntax errors, which may define them; they count as bound."""


class InvalidProgram(AuthorError):
    """A program cannot be parsed, or the static checks found problems."""

    code = "invalid-program"

    def __init__(self, found: Sequence[LanguageProblem], *, partial: "PartialProgram | None" = None) -> None:
        shown = "\n".join(problem.excerpt() for problem in found[:MAX_SHOWN])
        more = f"\n... and {len(found) - MAX_SHOWN} more" if len(found) > MAX_SHOWN else ""
        super().__init__(shown + more)
        self.found = tuple(found)
        self.partial = partial
        """The forms without syntax errors; None: they could not be separated, or parsing did not fail."""
        self.xml_fault: Literal["malformed", "invalid"] | None = None
        """For XML: `malformed` if it is not well-formed, `invalid` for all other problems. None: not XML."""

    def problems(self) -> list[dict[str, Any]]:
        """Return all problems in the format of `weft check --json`."""
        return [problem.as_json() for problem in self.found]


def invalid_program(span: Span, code: str, message: str) -> InvalidProgram:
    """Return an InvalidProgram with a single problem, for the caller to raise."""
    return InvalidProgram([LanguageProblem(span, code, message)])


def sort_problems(found: Iterable[LanguageProblem]) -> list[LanguageProblem]:
    """Return the problems sorted by file, line and column."""
    return sorted(found, key=lambda one: (one.span.source.name, one.span.line, one.span.column, one.code))


SUGGESTION_CUTOFF = 0.6
"""The least similarity (as in difflib) of a name that is suggested in a message."""

MISSPELLING_CUTOFF = 0.75
"""The least similarity of a name and its misspelling: `plna` and `plan`, but not `tests` and `steps`."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` to append to a message, or "" if no known name is similar."""
    found = _closest(name, known, SUGGESTION_CUTOFF)
    return f"; did you mean '{found}'?" if found is not None else ""


def nearest_tool(name: str, known: Iterable[str]) -> str:
    """Return a suggestion as `nearest` does, for a tool: the part after the last colon must be similar."""
    last = name.rpartition(":")[2]
    similar = [one for one in known if _closest(last, [one.rpartition(":")[2]], SUGGESTION_CUTOFF)]
    return nearest(name, similar)


def _closest(name: str, known: Iterable[str], cutoff: float) -> str | None:
    found = difflib.get_close_matches(name, list(islice(known, MAX_SUGGESTION_WORDS)), n=1, cutoff=cutoff)
    return found[0] if found else None


T = TypeVar("T")


class Findings:
    """Collects problems, which may be noted in any order; limits the suggestions in their messages."""

    def __init__(self, *, most: int | None = None) -> None:
        """Create a collection that raises InvalidProgram with all its problems when it has `most`."""
        self.problems: list[LanguageProblem] = []
        self._most = most
        self._suggestions = 0

    def note(self, span: Span, code: str, message: str) -> None:
        self.add([LanguageProblem(span, code, message)])

    def add(self, problems: Iterable[LanguageProblem]) -> None:
        self.problems.extend(problems)
        if self._most is not None and len(self.problems) >= self._most:
            raise InvalidProgram(sort_problems(self.problems[: self._most]))

    def attempt(self, act: Callable[[], T], otherwise: T) -> T:
        """Return the result of `act`; on InvalidProgram, add its problems and return `otherwise`."""
        try:
            return act()
        except InvalidProgram as error:
            self.add(error.found)
            return otherwise

    def nearest(self, name: str, known: Iterable[str]) -> str:
        """Return a suggestion as `nearest` does, or "" after MAX_SUGGESTIONS: each takes milliseconds."""
        self._suggestions += 1
        return nearest(name, known) if self._suggestions <= MAX_SUGGESTIONS else ""

    def near_miss(self, name: str, known: Iterable[str]) -> str | None:
        """Return the known name that `name` misspells, or None; always None after MAX_SUGGESTIONS."""
        self._suggestions += 1
        return _closest(name, known, MISSPELLING_CUTOFF) if self._suggestions <= MAX_SUGGESTIONS else None

    def sorted_problems(self) -> list[LanguageProblem]:
        """Return the problems without duplicates, sorted by file, line and column."""
        unique = {
            (one.span.source.name, one.span.line, one.span.column, one.code, one.message): one
            for one in self.problems
        }
        return sort_problems(unique.values())
