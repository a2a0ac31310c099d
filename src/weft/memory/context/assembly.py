"""Context assembly: which of the found items a task gets, in which order, in how many tokens.

An element is a line of the text, or what stands between commas or semicolons. One with `/`, `*` or a suffix
is a pattern of paths; any other is words. `Node.js` and `TCP/IP` look like paths and are names: what begins
with a capital letter and fits no file is words.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence, Set
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from msgspec import Struct

from weft.memory.context.items import FactsOf
from weft.memory.protocol import Chunk, FileFacts, Match

_SEPARATORS = re.compile(r"[\n;,]+")
_BULLET = re.compile(r"^[-*•]\s+")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_PATTERN = re.compile(r"\S*[/*]\S*|\S+\.[A-Za-z0-9]{1,8}")

EMPTY_WORDS = frozenset(
    [
        "a",
        "all",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "by",
        "code",
        "content",
        "contents",
        "every",
        "everything",
        "file",
        "files",
        "folder",
        "for",
        "from",
        "in",
        "is",
        "it",
        "its",
        "module",
        "modules",
        "no",
        "not",
        "of",
        "on",
        "or",
        "part",
        "parts",
        "source",
        "that",
        "the",
        "them",
        "these",
        "this",
        "those",
        "to",
        "what",
        "which",
        "with",
        "text",
    ]
)
"""Words that tell no file from another."""


def elements_of(text: str | None) -> tuple[str, ...]:
    """The elements of a text, in order."""
    if not text:
        return ()
    lines = (_BULLET.sub("", part.strip()) for part in _SEPARATORS.split(text))
    return tuple(line.strip(" \t.\"'`") for line in lines if words_of(line))


def is_pattern(element: str) -> bool:
    """Whether the element names paths."""
    return _PATTERN.fullmatch(element) is not None


def names_among(elements: Iterable[str], paths: Collection[str]) -> frozenset[str]:
    """The elements that look like paths and are names, for none of the paths fits them."""
    return frozenset(
        element
        for element in elements
        if is_pattern(element)
        and element[0].isupper()
        and "*" not in element
        and not any(fits_path(element, path) for path in paths)
    )


def fits_path(pattern: str, path: str) -> bool:
    """Whether a pattern means a path: the whole of it, a folder it is in, or its name."""
    pattern = pattern.removeprefix("./").rstrip("/")
    candidates = (path, path.rpartition("/")[2])
    if any(fnmatchcase(one, pattern) for one in candidates):
        return True
    return fnmatchcase(path, f"{pattern}/*") or fnmatchcase(path, f"*/{pattern}/*")


def words_of(text: str) -> frozenset[str]:
    """The words of a text in small letters, names split, plurals as one."""
    found = {word.lower() for word in _WORD.findall(text)}
    return frozenset(_singular(word) for word in found)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


_EMPTY = frozenset(map(_singular, EMPTY_WORDS))


def is_excluded(
    elements: Iterable[str], chunk: Chunk, facts: FileFacts | None, names: Set[str] = frozenset()
) -> bool:
    """Whether one of the elements means this piece; `names` are those that are words, as `names_among` says.

    A pattern means the paths that fit it. Words mean a piece when all of them are in its names: its path, the
    title of its file, the symbols it defines. Words in its text are not enough: to leave out what only speaks
    of something would leave out too much.
    """
    called = words_of(" ".join((chunk.path, (facts.title if facts else None) or "", *chunk.symbols)))
    return any(
        fits_path(element, chunk.path)
        if is_pattern(element) and element not in names
        else _means(element, called)
        for element in elements
    )


def _means(element: str, called: frozenset[str]) -> bool:
    words = words_of(element) - _EMPTY
    return bool(words) and words <= called


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


def meant(element: str, matches: Sequence[Match]) -> list[Match]:
    """Of the answer to an element's text those pieces that are meant: of files that fit, or near the best."""
    if is_pattern(element) and not names_among([element], {match.chunk.path for match in matches}):
        return [match for match in matches if fits_path(element, match.chunk.path)]
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


def once(matches: Iterable[Match]) -> list[Match]:
    """The matches without what one root has of a file that another has too: roots may lie in one another.

    It is given by the root of its first match.
    """
    roots: dict[PurePosixPath, str] = {}
    return [
        match
        for match in matches
        if roots.setdefault(PurePosixPath(match.chunk.root, match.chunk.path), match.chunk.root)
        == match.chunk.root
    ]


def without(matches: Iterable[Match], excluded: Sequence[str], facts_of: FactsOf) -> list[Match]:
    """The pieces that no excluded element means."""
    matches = list(matches)
    if not excluded:
        return matches
    names = names_among(excluded, {match.chunk.path for match in matches})
    return [
        match
        for match in matches
        if not is_excluded(excluded, match.chunk, facts_of(match.chunk.root, match.chunk.path), names)
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
