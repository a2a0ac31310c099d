"""Lines and indentation: short lists on one line, long ones broken."""

from collections.abc import Sequence

from msgspec import Struct

WIDTH = 100
INDENT = 2
_MANY_LINES = 1_000_000
"""The width of what cannot stand on one line."""


class Group(Struct, frozen=True):
    """Things that belong together. Broken, the first `on_first_line` of them stay beside the opening."""

    items: tuple["Layout", ...]
    width: int
    """On one line."""
    on_first_line: int = 1
    indent: int = INDENT
    opening: str = "("
    closing: str = ")"


Layout = str | Group


def form(*items: Layout, on_first_line: int = 1) -> Group:
    """`(head ...)`, broken with its parts indented."""
    return _group(items, on_first_line, INDENT, "(", ")")


def listing(items: Sequence[Layout], *, opening: str = "(") -> Group:
    """`(a b ...)`, broken with its items below each other."""
    return _group(items, 1, len(opening), opening, ")")


def pair(keyword: str, value: Layout) -> Group:
    """`:keyword value`, which are never parted."""
    return _group((keyword, value), 2, INDENT, "", "")


def _group(items: Sequence[Layout], on_first_line: int, indent: int, opening: str, closing: str) -> Group:
    width = sum(map(_width, items)) + max(0, len(items) - 1) + len(opening) + len(closing)
    return Group(tuple(items), width, on_first_line, indent, opening, closing)


def _width(layout: Layout) -> int:
    if isinstance(layout, Group):
        return layout.width
    return len(layout) if "\n" not in layout else _MANY_LINES


def lay_out(layout: Layout) -> str:
    """The text."""
    page = _Page()
    page.write(layout, 0)
    return "".join(page.written)


class _Page:
    def __init__(self) -> None:
        self.written: list[str] = []
        self._column = 0

    def write(self, layout: Layout, closing: int) -> None:
        """Write a layout after which so many parentheses close."""
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
