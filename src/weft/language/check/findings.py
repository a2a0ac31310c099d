"""What the checks found so far."""

from collections.abc import Iterable

from weft.language.problems import LanguageProblem, in_order
from weft.language.spans import Span
from weft.language.suggestions import near_miss, nearest
from weft.limits import MAX_SUGGESTIONS


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
