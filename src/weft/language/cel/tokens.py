"""Tokens of conditions and placeholders, with their locations and limits."""

import re
from bisect import bisect_right
from typing import Any, Literal

from msgspec import Struct

from weft.language.diagnostics import InvalidProgram, refuse
from weft.language.source import Span
from weft.limits import MAX_SHOWN_CHARACTERS

MAX_CONDITION_CHARACTERS = 10_000
"""Longest condition: a page of text. Without loops in the language this also bounds its operations."""

MAX_DEPTH = 100
"""Deepest nesting of parentheses, brackets and calls: far beyond what a person can read."""

MAX_VALUE_SIZE = 1_000_000
"""Most characters or items that `+` makes: adding a value to itself must not fill the memory."""

MAX_WORK = 20_000_000
"""Units of work of one evaluation, about a second: many comparisons of long values must not hang."""

WORK_PER_ITEM = 20
"""Units for looking at one item of a list or map; a character of a text takes one unit at most."""

MAX_PATTERN_CHARACTERS = 1_000
"""Longest regular expression; compiling takes more than linear memory where it counts repetitions."""

WORK_PER_PATTERN = 100_000
"""Units for compiling a regular expression that is not a literal of the condition."""

MAX_PROBLEMS = 100
"""How many problems of one text are told."""


class Places:
    """The lines of a text whose first character stands at `span`.

    The text may be part of a larger source: line and column count on from the span. A column of 0 (unknown)
    stays 0 on the first line; on later lines the column is that in the text. Where the source writes the text
    in other characters (escapes, entities, dedented lines), places are near and not exact.
    """

    __slots__ = ("_line_starts", "span", "text")

    def __init__(self, text: str, span: Span) -> None:
        self.text = text
        self.span = span
        self._line_starts: list[int] | None = None

    def at(self, offset: int) -> Span:
        """The place of the character at the offset."""
        starts = self._line_starts
        if starts is None:
            starts = self._line_starts = _line_starts(self.text)
        row = bisect_right(starts, offset) - 1
        column = offset - starts[row] + 1
        if row == 0:
            column = self.span.column + column - 1 if self.span.column else 0
        return Span(self.span.source, self.span.line + row, column)


def _line_starts(text: str) -> list[int]:
    starts = [0]
    end = text.find("\n")
    while end >= 0:
        starts.append(end + 1)
        end = text.find("\n", end + 1)
    return starts


def shown(text: str) -> str:
    """As much of the text as an error repeats."""
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}..."


Kind = Literal["name", "number", "string", "operator", "end"]


class Token(Struct, frozen=True):
    """A word of the text. `value` is what a number or string stands for."""

    kind: Kind
    text: str
    start: int
    end: int
    value: Any = None

    def __str__(self) -> str:
        if self.kind == "end":
            return "the end"
        text = shown(self.text)
        return text if self.kind == "string" else f"'{text}'"


_NUMBER = r"0x[0-9a-fA-F]+|(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_QUOTED = [
    rf"[rR]{quote}[^{quote}\n]*{quote}|{quote}[^{quote}\\\n]*(?:\\.[^{quote}\\\n]*)*{quote}"
    for quote in "\"'"
]
_WORD = r"[^\W\d]\w*"
_ANY_NAME = rf"{_WORD}(?:(?:->?|:)\w+)*\??"


def _language(spaces: str, name: str, operators: str) -> re.Pattern[str]:
    """Spaces, then one token; `operator` takes any other character, so that the parser says what is wrong."""
    return re.compile(
        rf"{spaces}(?:(?P<string>{'|'.join(_QUOTED)})|(?P<number>{_NUMBER})|(?P<name>{name})"
        rf"|(?P<operator>{operators}|.)|(?P<end>\Z))",
        re.DOTALL,
    )


CONDITION = _language(r"(?:\s+|//[^\n]*)*", _WORD, r"&&|\|\||[=!]==?|[<>]=?")
"""CEL: names are words, `-` and `:` are operators."""

PLACEHOLDER = _language(r"\s*", _ANY_NAME, r"\{\{|\}\}|&&|\|\||[=!]==?|[<>]=?")
"""No operators, so names may be those of functions and tools: `string-append`, `system:read_files`."""

NAME = re.compile(_ANY_NAME)
"""A name that can be written in a placeholder."""


class Tokens:
    """Reads tokens one after the other, with one of look-ahead."""

    def __init__(self, places: Places, language: re.Pattern[str], start: int = 0) -> None:
        self.places = places
        self._language = language
        self._depth = 0
        self.next = self._read(start)

    def take(self) -> Token:
        """The next token; the one after it becomes the next."""
        taken = self.next
        self.next = self._read(taken.end)
        return taken

    def accept(self, *operators: str) -> Token | None:
        """The next token if it is one of these operators."""
        is_one = self.next.kind == "operator" and self.next.text in operators
        return self.take() if is_one else None

    def expect(self, operator: str, purpose: str) -> Token:
        """The operator, which must come next."""
        taken = self.accept(operator)
        if taken is None:
            raise self.refuse(self.next, f"expected '{operator}' {purpose}, found {self.next}")
        return taken

    def enter(self, token: Token) -> None:
        """Go one level deeper; `leave` comes back."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.refuse(token, f"nested deeper than {MAX_DEPTH} levels", code="program-too-deep")

    def leave(self) -> None:
        """Come back from one level."""
        self._depth -= 1

    def refuse(self, token: Token, message: str, code: str = "syntax-error") -> InvalidProgram:
        """The error for a problem at the token, to be raised."""
        return refuse(self.places.at(token.start), code, message)

    def _read(self, position: int) -> Token:
        match = self._language.match(self.places.text, position)
        assert match is not None  # noqa: S101  the last alternatives take anything
        kind: Any = match.lastgroup
        token = Token(kind, match[kind], match.start(kind), match.end())
        if kind == "number":
            return self._number(token)
        if kind == "string":
            return self._string(token)
        if kind == "operator" and token.text in "\"'":
            raise self.refuse(token, "this string is not closed on its line")
        return token

    def _number(self, token: Token) -> Token:
        following = self.places.text[token.end : token.end + 1]
        if following.isalnum() or following == "_":
            raise self.refuse(
                token, f"'{shown(token.text)}{following}' is no number: expected 1, 0x1F, 1.5 or 1e3"
            )
        try:
            return Token(token.kind, token.text, token.start, token.end, _number_value(token.text))
        except (ValueError, OverflowError):
            raise self.refuse(token, "this number is too large", code="bad-value") from None

    def _string(self, token: Token) -> Token:
        text = token.text
        value = text[2:-1] if text[0] in "rR" else _ESCAPE.sub(self._unescaped(token), text[1:-1])
        return Token(token.kind, text, token.start, token.end, value)

    def _unescaped(self, token: Token) -> Any:
        def replace(match: re.Match[str]) -> str:
            simple = _SIMPLE_ESCAPES.get(match["simple"])
            if simple is not None:
                return simple
            digits = match["hexadecimal"]
            code = int(digits[1:], 16) if digits else int(match["octal"], 8) if match["octal"] else -1
            if not 0 <= code <= _LAST_CHARACTER or 0xD800 <= code <= 0xDFFF:
                raise self.refuse(token, f"unknown escape '{match[0]}'; a backslash itself is written '\\\\'")
            return chr(code)

        return replace


_LAST_CHARACTER = 0x10FFFF
_SIMPLE_ESCAPES = {
    **dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True)),
    **{character: character for character in "\\?\"'`"},
}
_ESCAPE = re.compile(
    r"\\(?:(?P<hexadecimal>[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2})"
    r"|(?P<simple>.))"
)


def _number_value(text: str) -> int | float:
    """The value; raises ValueError or OverflowError when it is too large to be kept."""
    if text.startswith("0x"):
        return int(text, 0)
    if text.isdecimal():
        return int(text)
    value = float(text)
    if value == float("inf"):
        raise OverflowError
    return value
