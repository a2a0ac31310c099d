"""What the full-text index is given for a chunk: its words by field, and the parts of its camelCase names."""

import re

_CAMEL = re.compile(r"[A-Za-z0-9]*?(?:[a-z][A-Z]|[A-Z][A-Z][a-z])[A-Za-z0-9]*")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

MAX_PART_SOURCE = 64
"""Longer runs of letters are data (base64, minified code), not names."""


def camel_parts(text: str) -> list[str]:
    """The parts of the camelCase names in the text, in lower case, each once, in order.

    Names with underscores and dots are split by the full-text index itself.
    """
    found: dict[str, None] = {}
    for name in dict.fromkeys(_CAMEL.findall(text)):
        if len(name) <= MAX_PART_SOURCE:
            for part in _PART.findall(name):
                if len(part) > 1:
                    found[part.lower()] = None
    return list(found)


def with_parts(text: str) -> str:
    """The text with the parts of its camelCase names behind it."""
    parts = camel_parts(text)
    return f"{text} {' '.join(parts)}" if parts else text


def fields_of(path: str, symbols: str, headings: str, content: str) -> tuple[str, str, str, str, str]:
    """The columns of `memory_words` for a chunk.

    The same arguments always give the same words: that is how a row is taken out again. Change it only
    together with SCHEMA_VERSION.
    """
    return with_parts(path), with_parts(symbols), headings, content, " ".join(camel_parts(content))
