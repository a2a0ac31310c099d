"""Context assembly: selects and orders the matches that a task gets, within a number of tokens.

The author of a task lists elements that are primary, secondary or excluded, separated by line breaks, commas
or semicolons. An element with `/`, `*` or a suffix is a path pattern; any other consists of words. `Node.js`
and `TCP/IP` look like paths but are names: an element that begins with a capital letter and matches no file
consists of words.
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
    """
    a all an and any are as at be by code content contents every everything file files folder for from
    in is it its module modules no not of on or part parts source text that the them these this those to
    what which with
    """.split()  # noqa: SIM905 - a list with one word per line would fill pages
)
"""Words too general to distinguish one file from another."""


def split_elements(text: str | None) -> tuple[str, ...]:
    """Split the text of an assembly option into its elements, in order."""
    if not text:
        return ()
    lines = (_BULLET.sub("", part.strip()) for part in _SEPARATORS.split(text))
    return tuple(line.strip(" \t.\"'`") for line in lines if words_of(line))


def is_pattern(element: str) -> bool:
    return _PATTERN.fullmatch(element) is not None


def names_among(elements: Iterable[str], paths: Collection[str]) -> frozenset[str]:
    """Return the elements that look like paths but are names, because they match none of the paths."""
    return frozenset(
        element
        for element in elements
        if is_pattern(element)
        and element[0].isupper()
        and "*" not in element
        and not any(fits_path(element, path) for path in paths)
    )


def fits_path(pattern: str, path: str) -> bool:
    """Return True if a pattern matches a path, its file name, or a folder that contains it."""
    pattern = pattern.removeprefix("./").rstrip("/")
    candidates = (path, path.rpartition("/")[2])
    if any(fnmatchcase(one, pattern) for one in candidates):
        return True
    return fnmatchcase(path, f"{pattern}/*") or fnmatchcase(path, f"*/{pattern}/*")


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text in lower case, with camelCase names split and plurals made singular."""
    found = {word.lower() for word in _WORD.findall(text)}
    return frozenset(_singular(word) for word in found)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


_EMPTY_SINGULARS = frozenset(map(_singular, EMPTY_WORDS))


def is_excluded(
    elements: Iterable[str], chunk: Chunk, facts: FileFacts | None, names: Set[str] = frozenset()
) -> bool:
    """Return True if one of the elements excludes this chunk.

    A pattern excludes the paths that match it. Words exclude a chunk if all of them are in its path, the
    title of its file or its symbols. Words in its text do not count: a chunk that only mentions a subject
    would be excluded too. `names` are the elements that `names_among` returned.
    """
    name_words = words_of(" ".join((chunk.path, (facts.title if facts else None) or "", *chunk.symbols)))
    return any(
        fits_path(element, chunk.path)
        if is_pattern(element) and element not in names
        else _has_all_words(element, name_words)
        for element in elements
    )


def _has_all_words(element: str, name_words: frozenset[str]) -> bool:
    words = words_of(element) - _EMPTY_SINGULARS
    return bool(words) and words <= name_words


TOKENS_PER_FILE = 40
"""Tokens of a file besides its text: its opening and closing markers and its name."""

PER_PIECE = 16
"""Tokens of the note about left-out lines before each further chunk of a file."""

CLOSE_SHARE = 0.5
"""An element of words selects the chunks that score at least this share of its best match."""

ChunkKey = tuple[str, str, int, int, int]
"""Root, path, first line, last line, and for a part of a line its first character (else 0)."""
CountTokens = Callable[[str], Awaitable[int]]


class Chosen(Struct, frozen=True, kw_only=True):
    """Matches that fit into the tokens available."""

    matches: tuple[Match, ...] = ()
    """Most important first."""
    left_out: int = 0
    """Number of chunks that did not fit."""
    tokens: int = 0


def key_of(chunk: Chunk) -> ChunkKey:
    return chunk.root, chunk.path, chunk.first_line, chunk.last_line, chunk.part[0] if chunk.part else 0


def select_meant(element: str, matches: Sequence[Match]) -> list[Match]:
    """Select the matches that an element asks for.

    For a path pattern these are the matches in files that match it, for words the matches that score close to
    the best.
    """
    if is_pattern(element) and not names_among([element], {match.chunk.path for match in matches}):
        return [match for match in matches if fits_path(element, match.chunk.path)]
    best = max((match.score for match in matches), default=0.0)
    return [match for match in matches if match.score >= best * CLOSE_SHARE]


def merge_ranked(
    found: Sequence[Match],
    primary: Sequence[Match] = (),
    secondary: Sequence[Match] = (),
    elements: tuple[Sequence[str], Sequence[str]] = ((), ()),
) -> list[Match]:
    """Merge the matches without duplicates: first primary elements, then secondary, then others, by score.

    `primary` and `secondary` are the matches of those elements, `found` those of the task's own query.
    `elements` are the primary and the secondary elements themselves: any match in a file that fits a path
    pattern among them ranks as primary or secondary too.
    """
    ranks: dict[ChunkKey, int] = {}
    best: dict[ChunkKey, Match] = {}
    for rank, matches in enumerate((primary, secondary, found)):
        for match in matches:
            key = key_of(match.chunk)
            path_rank = _rank_of_path(match.chunk.path, elements)
            ranks[key] = min(rank, path_rank, ranks.get(key, rank))
            # Prefer the score from the task's own query: only scores of the same query can be compared.
            if key not in best or rank == 2:
                best[key] = match
    return sorted(best.values(), key=lambda match: (ranks[key_of(match.chunk)], -match.score))


def _rank_of_path(path: str, elements: tuple[Sequence[str], Sequence[str]]) -> int:
    """Return 0 if a primary pattern matches the path, 1 if a secondary one does, else 2."""
    for rank, group in enumerate(elements):
        if any(is_pattern(element) and fits_path(element, path) for element in group):
            return rank
    return 2


def drop_duplicate_files(matches: Iterable[Match]) -> list[Match]:
    """Drop matches in files that were already matched through another root, as roots may be nested."""
    roots: dict[PurePosixPath, str] = {}
    return [
        match
        for match in matches
        if roots.setdefault(PurePosixPath(match.chunk.root, match.chunk.path), match.chunk.root)
        == match.chunk.root
    ]


def drop_excluded(matches: Iterable[Match], excluded: Sequence[str], facts_of: FactsOf) -> list[Match]:
    """Return the matches without those that an excluded element selects."""
    matches = list(matches)
    if not excluded:
        return matches
    names = names_among(excluded, {match.chunk.path for match in matches})
    return [
        match
        for match in matches
        if not is_excluded(excluded, match.chunk, facts_of(match.chunk.root, match.chunk.path), names)
    ]


async def select_fitting(matches: Iterable[Match], count: CountTokens, max_tokens: int | None) -> Chosen:
    """Select the matches that fit into `max_tokens` (None: no limit), in order.

    A match that is too large is skipped, as a later, smaller one may fit.
    """
    chosen: list[Match] = []
    files: set[tuple[str, str]] = set()
    tokens = left_out = 0
    for match in matches:
        file = (match.chunk.root, match.chunk.path)
        takes = await count(match.chunk.text) + (PER_PIECE if file in files else TOKENS_PER_FILE)
        if max_tokens is not None and tokens + takes > max_tokens:
            left_out += 1
            continue
        tokens += takes
        files.add(file)
        chosen.append(match)
    return Chosen(matches=tuple(chosen), left_out=left_out, tokens=tokens)
