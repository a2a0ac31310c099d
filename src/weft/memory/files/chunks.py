"""Splits a file into chunks of about thirty lines, preferably between definitions or sections."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache

WANTED_LINES = 30
LONGEST_LINES = 40
SHORTEST_LINES = 20

MANY_LINES = 40_000
"""Chunks get longer with each multiple of this: a megabyte of one-letter lines would give many thousands of
chunks, which take long to write. A file of a megabyte with lines of usual length has fewer lines."""

MAX_CHUNK_CHARACTERS = 20_000
"""A longer line, as in minified files, is split into parts."""

PART_CHARACTERS = 4000
"""Maximum length of a part of such a line; about as much as thirty lines."""

_PART_ENDS = " ,;)}>"
"""Preferred last characters of a part, so that no word is split."""

Cut = tuple[int, int, int, int | None]
"""First and last line, counted from 1. For a part of a line also its first character and its end; 0 and None
for whole lines."""

_LEADING = ("@", "#", "//", "/*", "*")
"""Beginnings of lines above a definition that belong to it: decorators and comments."""


def cut(lines: Sequence[str], starts: Sequence[int]) -> list[Cut]:
    """Return the location of each chunk.

    `starts` are the lines that begin a definition or a section, in order. A chunk ends before one of them if
    one is near, else at a blank line, else when it is long enough.
    """
    factor = 1 + len(lines) // MANY_LINES
    longest = LONGEST_LINES * factor
    chunks: list[Cut] = []
    first = 1
    may_be_long = max(map(len, lines), default=0) * longest > MAX_CHUNK_CHARACTERS
    while first <= len(lines):
        last = min(first + longest - 1, len(lines))
        if may_be_long and sum(map(len, lines[first - 1 : last])) > MAX_CHUNK_CHARACTERS:
            last = _within_size(lines, first, last)
        elif last < len(lines):
            last = _last_line(lines, starts, first, factor)
        if first == last and len(lines[first - 1]) > MAX_CHUNK_CHARACTERS:
            chunks += [(first, first, start, end) for start, end in _parts(lines[first - 1])]
        else:
            chunks.append((first, last, 0, None))
        first = last + 1
    return chunks


def _parts(line: str) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(line):
        end = start + PART_CHARACTERS
        if end < len(line):
            near = max(line.rfind(each, end - PART_CHARACTERS // 4, end) for each in _PART_ENDS)
            end = near + 1 if near >= 0 else end
        yield start, min(end, len(line))
        start = end


@cache
def _by_nearness(factor: int) -> Sequence[int]:
    """Return the possible lengths of a chunk, nearest to `WANTED_LINES * factor` first."""
    lengths = range(SHORTEST_LINES * factor, LONGEST_LINES * factor + 1)
    return sorted(lengths, key=lambda length: abs(length - WANTED_LINES * factor))


def _last_line(lines: Sequence[str], starts: Sequence[int], first: int, factor: int) -> int:
    """Return the last line of a chunk that begins at `first` and could have its maximum length."""
    here = bisect_left(starts, first + SHORTEST_LINES * factor)
    near = starts[here : bisect_left(starts, first + LONGEST_LINES * factor + 1, here)]
    if near:
        wanted = first + WANTED_LINES * factor
        return _definition_start(lines, first, min(near, key=lambda line: abs(line - wanted))) - 1
    for length in _by_nearness(factor):
        line = lines[first + length - 2]
        if not line or line.isspace():
            return first + length - 1
    return first + WANTED_LINES * factor - 1


def _definition_start(lines: Sequence[str], first: int, start: int) -> int:
    """Return the first line of the decorators and comments above a definition, or `start` without them."""
    line = start
    while line > first + 1 and lines[line - 2].lstrip().startswith(_LEADING):
        line -= 1
    # A comment as long as a chunk is not part of the definition.
    return line if start - line < SHORTEST_LINES else start


def _within_size(lines: Sequence[str], first: int, last: int) -> int:
    """Return the last line of a chunk that is limited by its size, because its lines are very long."""
    size = 0
    for line in range(first, last + 1):
        size += len(lines[line - 1])
        if size > MAX_CHUNK_CHARACTERS:
            return max(first, line - 1)
    return last
