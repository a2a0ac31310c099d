"""What the full-text index is given for a chunk: its words by field, and the parts of its camelCase names."""

import re
from functools import lru_cache

_SHAPE = bytes(
    32 if byte > 127 or not chr(byte).isalnum() else 65 if chr(byte).isupper() else 97 for byte in range(256)
)
"""Makes `A` of capital letters, `a` of small ones and digits, spaces of all that is no ASCII name."""

_HUMPS = (b"aA", b"AAa")
"""How the shape of a camelCase name looks where one of its parts begins."""

_PART = re.compile(rb"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

MAX_PART_SOURCE = 64
"""Longer runs of letters are data (base64, minified code), not names."""


def camel_parts(text: str) -> list[str]:
    """The parts of the camelCase names in the text, in lower case, each once."""
    return camel_words(text.encode("utf-8", "replace")).split()


def camel_words(text: bytes) -> str:
    """The parts of the camelCase names in the text, in lower case, each once, by spaces.

    Names with underscores and dots are split by the full-text index itself.
    """
    shape = text.translate(_SHAPE)
    names: set[bytes] = set()
    for hump in _HUMPS:
        place = shape.find(hump)
        while place >= 0:
            end = shape.find(b" ", place)
            if end < 0:
                end = len(shape)
            names.add(text[shape.rfind(b" ", 0, place) + 1 : end])
            place = shape.find(hump, end)
    if not names:
        return ""
    return b" ".join(sorted(set().union(*map(_parts, names)))).decode()


@lru_cache(maxsize=100_000)
def _parts(name: bytes) -> tuple[bytes, ...]:
    """The parts of a name in lower case; none when it has but one."""
    if name.isupper() or name.istitle() or len(name) > MAX_PART_SOURCE:
        return ()
    parts = [part.lower() for part in _PART.findall(name)]
    return tuple(part for part in parts if len(part) > 1) if len(parts) > 1 else ()


def with_parts(text: str) -> str:
    """The text with the parts of its camelCase names behind it."""
    if text.islower():
        return text
    parts = camel_words(text.encode("utf-8", "replace"))
    return f"{text} {parts}" if parts else text


def path_words(path: str) -> str:
    """A path as the index reads it."""
    return with_parts(path.encode("utf-8", "replace").decode())


def fields_of(path: str, symbols: str, headings: str, content: bytes) -> tuple[str, str, str, str, str]:
    """The columns of `memory_words` for a chunk; `path` is what `path_words` made.

    The same arguments always give the same words: that is how a row is taken out again. Change it only
    together with SCHEMA_VERSION.
    """
    return path, with_parts(symbols) if symbols else "", headings, content.decode(), camel_words(content)
