"""Tokens of conditions and placeholders, with their locations and limits."""

import re
from bisect import bisect_right
from typing import Any, Literal

from msgspec import Struct

from weft.language.diagnostics import InvalidProgram, invalid_program
from weft.language.source import Span
from weft.limits import MAX_SHOWN_CHARACTERS

MAX_CONDITION_CHARACTERS = 10_000
"""The longest condition. The language has no loops, so this also bounds its operations."""

MAX_DEPTH = 100
"""The deepest nesting of parentheses, brackets and calls."""

MAX_VALUE_SIZE = 1_000_000
"""How many characters or items a result of `+` may have, so that repeated `+` cannot fill the memory."""

MAX_WORK = 20_000_000
"""How many units of work (about a second) one evaluation may use, so that comparisons of long values end."""

WORK_PER_ITEM = 20
"""Units of work per item of a list or map."""

CHARACTERS_PER_WORK_UNIT = 20
"""Characters that are compared for one unit of work; `+` and `matches` take a unit for each character."""

MAX_PATTERN_CHARACTERS = 1_000
"""The longest regular expression; compiling counted repetitions takes more than linear memory."""

WORK_PER_PATTERN = 100_000
"""Units of work for compiling a regular expression that is computed, and so compiled at each evaluation."""

MAX_PROBLEMS = 100
"""How many problems of one text are reported."""


class Locations:
    """Converts offsets in a text to locations; `span` is the location of its first character.

    The text may be part of a larger source. If the column of the span is unknown (0), columns on the first
    line are 0, too; on later lines they are counted in the text. Locations are approximate if the source is
    not literally the text (escapes, entities, dedented lines).
    """

    __slots__ = ("_line_starts", "span", "text")

    def __init__(self, text: str, span: Span) -> None:
        self.text = text
        self.span = span
        self._line_starts: list[int] | None = None

    def at(self, offset: int) -> Span:
        """Return the location of the character at an offset."""
        starts = self._line_starts
        if starts is None:
            starts = self._line_starts = [0, *(end.end() for end in re.finditer("\n", self.text))]
        row = bisect_right(starts, offset) - 1
        column = offset - starts[row] + 1
        if row == 0:
            column = self.span.column + column - 1 if self.span.column else 0
        return Span(self.span.source, self.span.line + row, column)


def shorten(text: str) -> str:
    """Truncate a text for an error message."""
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}..."


Kind = Literal["name", "number", "string", "operator", "end"]


class Token(Struct, frozen=True):
    """A token; `start` and `end` are offsets in the text. Only numbers and strings have a `value`."""

    kind: Kind
    text: str
    start: int
    end: int
    value: Any = None

    def __str__(self) -> str:
        if self.kind == "end":
            return "the end"
        text = shorten(self.text)
        return text if self.kind == "string" else f"'{text}'"


_NUMBER = r"0x[0-9a-fA-F]+|(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_QUOTED = [
    rf"[rR]{quote}[^{quote}\n]*{quote}|{quote}[^{quote}\\\n]*(?:\\.[^{quote}\\\n]*)*{quote}"
    for quote in "\"'"
]
_WORD = r"[^\W\d]\w*"
_NAME_WITH_MARKS = rf"{_WORD}(?:(?:->?|:)\w+)*\??"


def _token_pattern(spaces: str, name: str, operators: str) -> re.Pattern[str]:
    """Return a pattern for spaces and one token; `operator` also matches any invalid character."""
    return re.compile(
        rf"{spaces}(?:(?P<string>{'|'.join(_QUOTED)})|(?P<number>{_NUMBER})|(?P<name>{name})"
        rf"|(?P<operator>{operators}|.)|(?P<end>\Z))",
        re.DOTALL,
    )


CONDITION = _token_pattern(r"(?:\s+|//[^\n]*)*", _WORD, r"&&|\|\||[=!]==?|[<>]=?")
"""CEL: names are words, `-` and `:` are operators."""

PLACEHOLDER = _token_pattern(r"\s*", _NAME_WITH_MARKS, r"\{\{|\}\}|&&|\|\||[=!]==?|[<>]=?")
"""Placeholders have no operators, so names may contain `-` and `:`: `string-append`, `system:read_files`."""

NAME = re.compile(_NAME_WITH_MARKS)
"""A name that can be written in a placeholder."""


class Tokens:
    """Token stream with one token of lookahead (`next`)."""

    def __init__(self, locations: Locations, language: re.Pattern[str], start: int = 0) -> None:
        self.locations = locations
        self._language = language
        self._depth = 0
        self.next = self._read(start)

    def take(self) -> Token:
        """Return the next token and advance."""
        taken = self.next
        self.next = self._read(taken.end)
        return taken

    def accept(self, *operators: str) -> Token | None:
        """Take and return the next token if it is one of these operators, else return None."""
        is_one = self.next.kind == "operator" and self.next.text in operators
        return self.take() if is_one else None

    def expect(self, operator: str, purpose: str) -> Token:
        """Take the next token, which must be this operator. Raise InvalidProgram."""
        taken = self.accept(operator)
        if taken is None:
            raise self.error(self.next, f"expected '{operator}' {purpose}, found {self.next}")
        return taken

    def enter(self, token: Token) -> None:
        """Enter a nesting level. Raise InvalidProgram beyond MAX_DEPTH."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.error(token, f"nested deeper than {MAX_DEPTH} levels", code="program-too-deep")

    def leave(self) -> None:
        self._depth -= 1

    def error(self, token: Token, message: str, code: str = "syntax-error") -> InvalidProgram:
        """Return an InvalidProgram with a problem at the token, for the caller to raise."""
        return invalid_program(self.locations.at(token.start), code, message)

    def _read(self, position: int) -> Token:
        match = self._language.match(self.locations.text, position)
        assert match is not None  # noqa: S101  the last alternatives match anything
        kind: Any = match.lastgroup
        token = Token(kind, match[kind], match.start(kind), match.end())
        if kind == "number":
            return self._read_number(token)
        if kind == "string":
            return self._read_string(token)
        if kind == "operator" and token.text in "\"'":
            raise self.error(token, "this string is not closed on its line")
        return token

    def _read_number(self, token: Token) -> Token:
        following = self.locations.text[token.end : token.end + 1]
        if following.isalnum() or following == "_":
            raise self.error(
                token, f"'{shorten(token.text)}{following}' is not a number: expected 1, 0x1F, 1.5 or 1e3"
            )
        try:
            return Token(token.kind, token.text, token.start, token.end, _number_value(token.text))
        except (ValueError, OverflowError):
            raise self.error(token, "this number is too large", code="bad-value") from None

    def _read_string(self, token: Token) -> Token:
        text = token.text
        value = text[2:-1] if text[0] in "rR" else _ESCAPE.sub(self._escape_replacer(token), text[1:-1])
        return Token(token.kind, text, token.start, token.end, value)

    def _escape_replacer(self, token: Token) -> Any:
        def replace(match: re.Match[str]) -> str:
            simple = _SIMPLE_ESCAPES.get(match["simple"])
            if simple is not None:
                return simple
            digits = match["hexadecimal"]
            code = int(digits[1:], 16) if digits else int(match["octal"], 8) if match["octal"] else -1
            if not 0 <= code <= _LAST_CHARACTER or 0xD800 <= code <= 0xDFFF:
                raise self.error(token, f"unknown escape '{match[0]}'; a backslash itself is written '\\\\'")
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
    """Return the value of a number. Raise ValueError or OverflowError if it is too large."""
    if text.startswith("0x"):
        return int(text, 0)
    if text.isdecimal():
        return int(text)
    value = float(text)
    if value == float("inf"):
        raise OverflowError
    return value
