"""A file cut into pieces of some thirty lines, where the text has its own cuts."""

import re
from collections.abc import Sequence

WANTED_LINES = 30
LONGEST_LINES = 40
SHORTEST_LINES = 20

MAX_CHUNK_CHARACTERS = 20_000
"""A line of a minified file may be longer; then it is a chunk of its own."""

_BLANK = re.compile(r"\s*$")


def cut(lines: Sequence[str], strong: frozenset[int] | set[int]) -> list[tuple[int, int]]:
    """The first and last line of each chunk, from 1. `strong`: lines that begin a definition or a section."""
    if len(lines) <= LONGEST_LINES and sum(map(len, lines)) <= MAX_CHUNK_CHARACTERS:
        return [(1, len(lines))] if lines else []
    chunks = []
    first = 1
    while first <= len(lines):
        last = _last_line(lines, strong, first)
        chunks.append((first, last))
        first = last + 1
    return chunks


def _last_line(lines: Sequence[str], strong: frozenset[int] | set[int], first: int) -> int:
    """Where the chunk that begins here ends: before a definition if one is near, else at a blank line."""
    limit = _within_size(lines, first)
    if limit == len(lines):
        return limit
    nearest = range(first + SHORTEST_LINES, limit + 2)  # lines that could begin the next chunk
    wanted = first + WANTED_LINES
    for is_good in (
        lambda line: line in strong,
        lambda line: _BLANK.match(lines[line - 2]) is not None,
    ):
        found = [line for line in nearest if line <= len(lines) and is_good(line)]
        if found:
            return min(found, key=lambda line: abs(line - wanted)) - 1
    return min(limit, wanted - 1)


def _within_size(lines: Sequence[str], first: int) -> int:
    """The last line that the chunk may have."""
    last = min(first + LONGEST_LINES - 1, len(lines))
    size = 0
    for line in range(first, last + 1):
        size += len(lines[line - 1])
        if size > MAX_CHUNK_CHARACTERS:
            return max(first, line - 1)
    return last
