"""Where something stands in a source text."""

from typing import Any

from msgspec import Struct


class Source(Struct, frozen=True, eq=False):
    """A text that was read, and the name it is known by: a path, `<eval>`, `<repl>`."""

    name: str
    text: str

    def line(self, number: int) -> str:
        """The text of a line, from 1; empty beyond the end.

        It looks no further than the line: the text may be long, and the mistake at its beginning.
        """
        beginning = "\n".join(self.text.split("\n", max(0, number))[:number])
        lines = beginning.splitlines()
        return lines[number - 1] if 0 < number <= len(lines) else ""


class Span(Struct, frozen=True, eq=False):
    """A place in a source.

    All spans are equal: where a node came from is no part of what it is, so trees that were read from
    different texts can be compared with `==`.
    """

    source: Source
    line: int = 1
    """From 1."""
    column: int = 1
    """From 1, in characters; 0 where it cannot be had (schema errors of XML)."""

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Span)

    def __hash__(self) -> int:
        return 0

    def __str__(self) -> str:
        column = f":{self.column}" if self.column else ""
        return f"{self.source.name}:{self.line}{column}"


NOWHERE = Span(Source("<built>", ""))
"""The place of nodes that were built in Python and not read."""
