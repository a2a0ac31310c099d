"""Source texts and locations in them."""

from typing import Any

from msgspec import Struct


class Source(Struct, frozen=True, eq=False):
    """A source text and its name: a path, `<eval>`, `<repl>`."""

    name: str
    text: str

    def line(self, number: int) -> str:
        """Return the text of a line, counted from 1; "" beyond the end.

        The text after the line is not scanned, because it may be long.
        """
        beginning = "\n".join(self.text.split("\n", max(0, number))[:number])
        lines = beginning.splitlines()
        return lines[number - 1] if 0 < number <= len(lines) else ""


class Span(Struct, frozen=True, eq=False):
    """A location in a source.

    All spans compare equal, so that trees parsed from different texts can be compared with `==`.
    """

    source: Source
    line: int = 1
    """From 1."""
    column: int = 1
    """From 1, in characters; 0 if unknown (XML schema errors)."""

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Span)

    def __hash__(self) -> int:
        return 0

    def __str__(self) -> str:
        column = f":{self.column}" if self.column else ""
        return f"{self.source.name}:{self.line}{column}"


NOWHERE = Span(Source("<built>", ""))
"""The location of nodes that were built in Python instead of parsed."""
