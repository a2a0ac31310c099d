"""Context assembly: which of the pieces that were found a task gets, in which order, in how many tokens."""

from collections.abc import Awaitable, Callable, Iterable, Sequence

from msgspec import Struct

from weft.memory.elements import fits_path, is_excluded, is_pattern
from weft.memory.pieces import FactsOf
from weft.memory.protocol import Chunk, Match

PER_FILE = 40
"""Tokens that a file takes beside its text: what begins and ends it, and its name."""

PER_PIECE = 16
"""Tokens of the note on lines that are left out before a further piece of a file."""

CLOSE = 0.5
"""An element of the author means the pieces that score so much of what its best one scores, or more."""

ChunkKey = tuple[str, str, int, int, int]
CountTokens = Callable[[str], Awaitable[int]]


class Chosen(Struct, frozen=True, kw_only=True):
    """What a task gets of what was found."""

    matches: tuple[Match, ...] = ()
    """The most important first."""
    left_out: int = 0
    """How many pieces did not fit."""
    tokens: int = 0


def key_of(chunk: Chunk) -> ChunkKey:
    """What tells one piece from another."""
    return chunk.root, chunk.path, chunk.first_line, chunk.last_line, chunk.part[0] if chunk.part else 0


def meant(matches: Sequence[Match]) -> list[Match]:
    """Of the answer to an element's text those pieces that are meant: near the best one."""
    best = max((match.score for match in matches), default=0.0)
    return [match for match in matches if match.score >= best * CLOSE]


def in_order(
    found: Sequence[Match],
    primary: Sequence[Match] = (),
    secondary: Sequence[Match] = (),
    patterns: tuple[Sequence[str], Sequence[str]] = ((), ()),
) -> list[Match]:
    """All pieces once: those of primary elements, those of secondary ones, the rest; each by score.

    `primary` and `secondary` are what matched those elements; `patterns` are elements that are paths.
    """
    ranks: dict[ChunkKey, int] = {}
    best: dict[ChunkKey, Match] = {}
    for rank, matches in enumerate((primary, secondary, found)):
        for match in matches:
            key = key_of(match.chunk)
            named = _rank_of_path(match.chunk.path, patterns)
            ranks[key] = min(rank, named, ranks.get(key, rank))
            # The score of the task's own query is kept where there is one: scores of one answer compare.
            if key not in best or rank == 2:
                best[key] = match
    return sorted(best.values(), key=lambda match: (ranks[key_of(match.chunk)], -match.score))


def _rank_of_path(path: str, patterns: tuple[Sequence[str], Sequence[str]]) -> int:
    for rank, elements in enumerate(patterns):
        if any(is_pattern(element) and fits_path(element, path) for element in elements):
            return rank
    return 2


def without(matches: Iterable[Match], excluded: Sequence[str], facts_of: FactsOf) -> list[Match]:
    """The pieces that no excluded element means."""
    if not excluded:
        return list(matches)
    return [
        match
        for match in matches
        if not is_excluded(excluded, match.chunk, facts_of(match.chunk.root, match.chunk.path))
    ]


async def fitting(matches: Iterable[Match], count: CountTokens, max_tokens: int | None) -> Chosen:
    """The pieces that fit, in order; one that does not is passed over, for a smaller one may fit."""
    chosen: list[Match] = []
    files: set[tuple[str, str]] = set()
    tokens = left_out = 0
    for match in matches:
        file = (match.chunk.root, match.chunk.path)
        takes = await count(match.chunk.text) + (PER_PIECE if file in files else PER_FILE)
        if max_tokens is not None and tokens + takes > max_tokens:
            left_out += 1
            continue
        tokens += takes
        files.add(file)
        chosen.append(match)
    return Chosen(matches=tuple(chosen), left_out=left_out, tokens=tokens)
