"""Elements of `context_assembly`: free text that names files by what they are called or are about.

An element is a line of the text, or what stands between commas or semicolons. One with `/`, `*` or a suffix
is a pattern of paths; any other is words. `Node.js` and `TCP/IP` look like paths and are names: what begins
with a capital letter and fits no file is words.
"""

import re
from collections.abc import Collection, Iterable, Set
from fnmatch import fnmatchcase

from weft.memory.protocol import Chunk, FileFacts

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
