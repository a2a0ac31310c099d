"""Layout of printed S-expressions: short lists on one line, long ones broken over several."""

import math
from collections.abc import Sequence

from msgspec import Struct

from weft.language.ast import Scalar
from weft.language.diagnostics import invalid_program
from weft.language.sexp.names import escape
from weft.language.source import NOWHERE
from weft.limits import is_unicode

WIDTH = 100
INDENT = 2
_MANY_LINES = 1_000_000
"""The width of an item that contains line breaks, so that it never fits on one line."""


class Group(Struct, frozen=True):
    """Items printed together. When broken, the first `on_first_line` items stay beside the opening."""

    items: tuple["Layout", ...]
    width: int
    """The width on one line."""
    on_first_line: int = 1
    indent: int = INDENT
    opening: str = "("
    closing: str = ")"


Layout = str | Group


def form(*items: Layout, on_first_line: int = 1) -> Group:
    """Lay out `(head ...)`; when broken over several lines, the items are indented."""
    return _group(items, on_first_line, INDENT, "(", ")")


def listing(items: Sequence[Layout], *, opening: str = "(") -> Group:
    """Lay out `(a b ...)`; when broken over several lines, the items are aligned."""
    return _group(items, 1, len(opening), opening, ")")


def pair(keyword: str, value: Layout) -> Group:
    """Lay out `:keyword value`, never with a line break between the two."""
    return _group((keyword, value), 2, INDENT, "", "")


def _group(items: Sequence[Layout], on_first_line: int, indent: int, opening: str, closing: str) -> Group:
    width = sum(map(_width, items)) + max(0, len(items) - 1) + len(opening) + len(closing)
    return Group(tuple(items), width, on_first_line, indent, opening, closing)


def _width(layout: Layout) -> int:
    if isinstance(layout, Group):
        return layout.width
    return len(layout) if "\n" not in layout else _MANY_LINES


def render(layout: Layout) -> str:
    """Return the text of a layout."""
    writer = _Writer()
    writer.write(layout, 0)
    return "".join(writer.written)


class _Writer:
    def __init__(self) -> None:
        self.written: list[str] = []
        self._column = 0

    def write(self, layout: Layout, closing: int) -> None:
        """Write a layout that `closing` characters, mostly parentheses, will follow on the same line."""
        if isinstance(layout, str):
            self._put(layout)
        elif self._column + layout.width + closing <= WIDTH:
            self._write_on_one_line(layout)
        else:
            self._write_broken(layout, closing)

    def _put(self, text: str) -> None:
        self.written.append(text)
        lines = text.rpartition("\n")
        self._column = len(lines[2]) + (0 if lines[1] else self._column)

    def _write_on_one_line(self, layout: Layout) -> None:
        if isinstance(layout, str):
            self._put(layout)
            return
        self._put(layout.opening)
        for number, item in enumerate(layout.items):
            if number:
                self._put(" ")
            self._write_on_one_line(item)
        self._put(layout.closing)

    def _write_broken(self, group: Group, closing: int) -> None:
        edge = self._column + group.indent
        self._put(group.opening)
        last = len(group.items) - 1
        for number, item in enumerate(group.items):
            if number:
                self._put(" " if number < group.on_first_line else "\n" + " " * edge)
            self.write(item, closing + len(group.closing) if number == last else 0)
        self._put(group.closing)


_MAX_ONE_LINE_CHARACTERS = 60
"""Strings up to this length are printed on one line, with line breaks escaped."""


def scalar_text(value: Scalar) -> str:
    """Return the source text of a constant. Raise InvalidProgram if it cannot be written in a program."""
    match value:
        case None:
            return "nil"
        case bool():
            return "true" if value else "false"
        case str():
            return string_text(value)
        case _:
            return number_text(value)


def string_text(text: str) -> str:
    """Return a string in quotes. Long strings keep their line breaks, so that prompts stay readable."""
    if not is_unicode(text):
        message = "a lone surrogate is not a valid character and cannot be printed"
        raise invalid_program(NOWHERE, "bad-value", message)
    return escape(text, keeps_lines=len(text) > _MAX_ONE_LINE_CHARACTERS)


def number_text(value: float) -> str:
    if isinstance(value, int):
        try:
            return str(value)
        except ValueError as error:  # Python limits the digits of int to str conversion
            raise invalid_program(NOWHERE, "bad-value", "an integer is too long to be printed") from error
    if not math.isfinite(value):
        raise invalid_program(
            NOWHERE, "bad-value", f"{value} is not a number of the language and cannot be printed"
        )
    return repr(value)


def seconds_text(seconds: float) -> str:
    """Return the text of a duration; whole seconds have no decimal point."""
    return number_text(int(seconds) if seconds == int(seconds) and seconds < 1e15 else seconds)
