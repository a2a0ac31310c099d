"""Problems of a program, the error that carries them, and suggestions for misspelled names."""

import difflib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from weft.errors import AuthorError
from weft.language.source import Span
from weft.limits import MAX_SUGGESTION_WORDS, MAX_SUGGESTIONS

if TYPE_CHECKING:
    from weft.language.ast import Program


MAX_SHOWN = 20
"""How many problems a message lists; the rest is counted."""


class LanguageProblem(Struct, frozen=True):
    """One mistake in a program, at its place."""

    span: Span
    code: str
    """Stable and kebab-case: `unbound-name`, `wrong-arity`, `context-conflict`, `xml-doctype` ..."""
    message: str

    def __str__(self) -> str:
        return f"{self.span}: {self.code}: {self.message}"

    def as_json(self) -> dict[str, Any]:
        """The form of `weft check --json`."""
        place = {"file": self.span.source.name, "line": self.span.line, "column": self.span.column}
        return {**place, "code": self.code, "message": self.message}

    def excerpt(self) -> str:
        """The message, the line it is about if there is one, and a caret under the place."""
        line = self.span.source.line(self.span.line).expandtabs(1)
        if not line.strip() or not self.span.column:
            return str(self)
        start = max(0, self.span.column - 60)
        return f"{self}\n  {line[start : start + 100]}\n  {' ' * (self.span.column - 1 - start)}^"


class Rest(Struct, frozen=True):
    """What could be read of a program that is wrong elsewhere, so that the checks can go on over it."""

    program: "Program"
    mentioned: frozenset[str]
    """The names that the other forms mention: they may be what binds them."""


class InvalidProgram(AuthorError):
    """A program cannot be read or does not pass its checks."""

    code = "invalid-program"

    def __init__(self, found: Sequence[LanguageProblem], *, rest: "Rest | None" = None) -> None:
        shown = "\n".join(problem.excerpt() for problem in found[:MAX_SHOWN])
        more = f"\n... and {len(found) - MAX_SHOWN} more" if len(found) > MAX_SHOWN else ""
        super().__init__(shown + more)
        self.found = tuple(found)
        self.rest = rest
        """What of the program could be read; None: nothing."""
        self.xml_fault: Literal["malformed", "invalid"] | None = None
        """Of a document in XML: whether it is not well-formed, or breaks a rule of templates."""

    def problems(self) -> list[dict[str, Any]]:
        """Every problem in its JSON form."""
        return [problem.as_json() for problem in self.found]


def refuse(span: Span, code: str, message: str) -> InvalidProgram:
    """The error for a single problem, to be raised."""
    return InvalidProgram([LanguageProblem(span, code, message)])


def in_order(found: Iterable[LanguageProblem]) -> list[LanguageProblem]:
    """Problems as a reader meets them: by file, line and column."""
    return sorted(found, key=lambda one: (one.span.source.name, one.span.line, one.span.column, one.code))


ALIKE = 0.6
"""How alike a name is that is suggested beside a problem."""

NEARLY = 0.75
"""How alike names are of which one is a mistake: `plna` and `plan` are, `tests` and `steps` are not."""


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` to end a message with, or nothing."""
    found = _closest(name, known, ALIKE)
    return f"; did you mean '{found}'?" if found is not None else ""


def nearest_tool(name: str, known: Iterable[str]) -> str:
    """As `nearest`, of tools: what comes after the last colon must be alike, not only `system:` before it."""
    last = name.rpartition(":")[2]
    return nearest(name, [one for one in known if _closest(last, [one.rpartition(":")[2]], ALIKE)])


def near_miss(name: str, known: Iterable[str]) -> str | None:
    """The known name that a name is nearly."""
    return _closest(name, known, NEARLY)


def _closest(name: str, known: Iterable[str], cutoff: float) -> str | None:
    found = difflib.get_close_matches(name, list(islice(known, MAX_SUGGESTION_WORDS)), n=1, cutoff=cutoff)
    return found[0] if found else None


class Findings:
    """Problems, gathered in any order."""

    def __init__(self) -> None:
        self._found: list[LanguageProblem] = []
        self._suggestions = 0

    def note(self, span: Span, code: str, message: str) -> None:
        """Note a problem."""
        self._found.append(LanguageProblem(span, code, message))

    def add(self, problems: Iterable[LanguageProblem]) -> None:
        """Note problems that something else found."""
        self._found.extend(problems)

    def nearest(self, name: str, known: Iterable[str]) -> str:
        """`; did you mean 'x'?` or nothing. Only the first few are looked for: each takes milliseconds."""
        self._suggestions += 1
        return nearest(name, known) if self._suggestions <= MAX_SUGGESTIONS else ""

    def near_miss(self, name: str, known: Iterable[str]) -> str | None:
        """The known name that a name is nearly; None: there is none, or too many were looked for."""
        self._suggestions += 1
        return near_miss(name, known) if self._suggestions <= MAX_SUGGESTIONS else None

    def in_order(self) -> list[LanguageProblem]:
        """Every problem once, as a reader meets them."""
        unique = {
            (one.span.source.name, one.span.line, one.span.column, one.code, one.message): one
            for one in self._found
        }
        return in_order(unique.values())
