"""A file made ready for the index: its text, facts and chunks. Runs in other processes too."""

import hashlib
import re
from bisect import bisect_right
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from weft.memory.chunks import Cut, cut
from weft.memory.decoding import decode
from weft.memory.languages import language_of
from weft.memory.outline import Outline, outline_of
from weft.memory.packing import pack
from weft.memory.protocol import Symbol
from weft.memory.words import fields_of, path_words

MAX_TITLE_CHARACTERS = 200

_NAME = re.compile(r"[\w$]+")
_LETTER = re.compile(r"[^\W_]")


class PreparedChunk(Struct, frozen=True, array_like=True, gc=False):
    """A row of `memory_chunks` and its words."""

    first_line: int
    last_line: int
    start_character: int
    end_character: int | None
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
    try:
        encoded = text.encode()
    except UnicodeEncodeError:  # half surrogates, of a strange encoding
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
        text=pack(encoded),
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


def text_at(lines: Sequence[str], place: Cut) -> str:
    """The text of a chunk."""
    first, last, start, end = place
    return "\n".join(lines[first - 1 : last])[start:end]


def _chunks(path: str, lines: list[str], outline: Outline) -> list[PreparedChunk]:
    """The chunks that have a word, and the first, which stands for a file that is named."""
    symbols = outline.symbols
    places = [symbol.line for symbol in symbols]
    return [
        _chunk(path, lines, place, _within(symbols, places, place[0], place[1]), outline.title)
        for number, place in enumerate(cut(lines, places))
        if not number or _LETTER.search(text_at(lines, place))
    ]


def _within(symbols: tuple[Symbol, ...], places: list[int], first: int, last: int) -> tuple[Symbol, ...]:
    """The symbols of these lines, and before them the one that the first line stands inside."""
    begin, end = bisect_right(places, first - 1), bisect_right(places, last)
    starts_here = begin < len(places) and places[begin] == first
    return symbols[max(0, begin - (0 if starts_here else 1)) : end]


def _chunk(
    path: str, lines: list[str], place: Cut, symbols: tuple[Symbol, ...], title: str | None
) -> PreparedChunk:
    text = text_at(lines, place)
    content = text.encode()
    if place[3] is not None:
        symbols = _named_in(text, symbols)
    names = " ".join(dict.fromkeys([symbol.name for symbol in symbols if symbol.kind != "heading"]))
    headings = "\n".join([symbol.name for symbol in symbols if symbol.kind == "heading"])
    if place[0] == 1 and title and not headings:
        headings = title[:MAX_TITLE_CHARACTERS]
    return PreparedChunk(*place, names, headings, fields_of(path, names, headings, content))


def _named_in(text: str, symbols: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
    """The symbols that a part of a line speaks of: the line may define thousands."""
    words = set(_NAME.findall(text))
    return tuple(symbol for symbol in symbols if symbol.name in words)
