"""From an offset in a text to its place in the source."""

from bisect import bisect_right

from weft.language.spans import Span


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
