"""A file made ready for the index: its text, facts and chunks. Runs in other processes too."""

import hashlib
import zlib
from bisect import bisect_right

import msgspec
from msgspec import Struct

from weft.memory.chunks import cut
from weft.memory.decoding import decode
from weft.memory.languages import language_of
from weft.memory.outline import Outline, outline_of
from weft.memory.protocol import Symbol
from weft.memory.words import fields_of, path_words

MAX_TITLE_CHARACTERS = 200


class PreparedChunk(Struct, frozen=True, array_like=True, gc=False):
    """A row of `memory_chunks` and its words."""

    first_line: int
    last_line: int
    hash: int
    symbols: str
    headings: str
    fields: tuple[str, str, str, str, str]


class Prepared(Struct, frozen=True, array_like=True, gc=False):
    """What the index stores of a file."""

    hash: bytes
    skipped: str | None = None
    lines: int = 0
    language: str | None = None
    title: str | None = None
    symbols: bytes | None = None
    """As `memory_files` has them: JSON."""
    text: bytes = b""
    text_bytes: int = 0
    chunks: tuple[PreparedChunk, ...] = ()


def hash_of(content: bytes) -> bytes:
    """What tells whether a file has changed."""
    return hashlib.blake2b(content, digest_size=16).digest()


def prepare(path: str, content: bytes) -> Prepared:
    """The file as the index stores it."""
    digest = hash_of(content)
    text = decode(content)
    if text is None:
        return Prepared(digest, "binary")
    encoded = text.encode("utf-8", "replace")
    text = encoded.decode()
    language = language_of(path, text)
    lines = text_lines(text)
    outline = outline_of(language, text, lines)
    return Prepared(
        hash=digest,
        lines=len(lines),
        language=language,
        title=outline.title[:MAX_TITLE_CHARACTERS] if outline.title else None,
        symbols=_symbols(outline),
        text=zlib.compress(encoded, 3),
        text_bytes=len(encoded),
        chunks=tuple(_chunks(path_words(path), lines, outline)),
    )


def _symbols(outline: Outline) -> bytes | None:
    rows = [(symbol.name, symbol.kind, symbol.line) for symbol in outline.symbols]
    return msgspec.json.encode(rows) if rows else None


def text_lines(text: str) -> list[str]:
    """The lines of a text, without their ends."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def _chunks(path: str, lines: list[str], outline: Outline) -> list[PreparedChunk]:
    symbols = outline.symbols
    places = [symbol.line for symbol in symbols]
    return [
        _chunk(path, lines, first, last, _within(symbols, places, first, last), outline.title)
        for first, last in cut(lines, places)
    ]


def _within(symbols: tuple[Symbol, ...], places: list[int], first: int, last: int) -> tuple[Symbol, ...]:
    """The symbols of these lines, and before them the one that the first line stands inside."""
    begin, end = bisect_right(places, first - 1), bisect_right(places, last)
    starts_here = begin < len(places) and places[begin] == first
    return symbols[max(0, begin - (0 if starts_here else 1)) : end]


def _chunk(
    path: str, lines: list[str], first: int, last: int, symbols: tuple[Symbol, ...], title: str | None
) -> PreparedChunk:
    content = "\n".join(lines[first - 1 : last]).encode()
    names = " ".join(dict.fromkeys([symbol.name for symbol in symbols if symbol.kind != "heading"]))
    headings = "\n".join([symbol.name for symbol in symbols if symbol.kind == "heading"])
    if first == 1 and title and not headings:
        headings = title[:MAX_TITLE_CHARACTERS]
    digest = hashlib.blake2b(content, digest_size=8).digest()
    return PreparedChunk(
        first, last, int.from_bytes(digest, "big", signed=True), names, headings,
        fields_of(path, names, headings, content),
    )  # fmt: skip
