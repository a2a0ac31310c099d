"""What is wrong with a program: one problem, and the error that carries all of them."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from weft.errors import AuthorError
from weft.language.spans import Span

if TYPE_CHECKING:  # it has no use for problems, but what it is made of may
    from weft.language.tree import Program

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
