"""Splits a query into weighted words, tokenized and stemmed like the full-text index."""

import math
import re
import sqlite3
import threading
from collections.abc import Iterable, Sequence, Set
from functools import lru_cache

from msgspec import Struct

from weft.limits import clean_text
from weft.memory.protocol import QueryPart

_SHAPE = bytes(
    32 if byte > 127 or not chr(byte).isalnum() else 65 if chr(byte).isupper() else 97 for byte in range(256)
)
"""Translates upper case letters to `A`, lower case letters and digits to `a`, and all other bytes to
spaces."""

_HUMPS = (b"aA", b"AAa")
"""Shapes of a boundary between two parts of a camelCase name."""

_PART = re.compile(rb"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

MAX_PART_SOURCE = 64
"""Longer runs of letters are data (base64, minified code), not names."""


def camel_parts(text: str) -> list[str]:
    """Return the parts of the camelCase names in the text, in lower case, without duplicates."""
    return camel_words(text.encode()).split()


def camel_words(text: bytes) -> str:
    """Return the distinct parts of the camelCase names in the text, in lower case, joined by spaces.

    Names with underscores and dots are left to the full-text index, which splits them itself.
    """
    shape = text.translate(_SHAPE)
    names: set[bytes] = set()
    for hump in _HUMPS:
        position = shape.find(hump)
        while position >= 0:
            end = shape.find(b" ", position)
            if end < 0:
                end = len(shape)
            names.add(text[shape.rfind(b" ", 0, position) + 1 : end])
            position = shape.find(hump, end)
    if not names:
        return ""
    return b" ".join(sorted(set().union(*map(_parts, names)))).decode()


@lru_cache(maxsize=100_000)
def _parts(name: bytes) -> tuple[bytes, ...]:
    """Return the parts of a name in lower case; empty if it is too long, or not a camelCase name."""
    if name.isupper() or name.istitle() or len(name) > MAX_PART_SOURCE:
        return ()
    parts = [part.lower() for part in _PART.findall(name)]
    return tuple(part for part in parts if len(part) > 1) if len(parts) > 1 else ()


def with_parts(text: str) -> str:
    """Append the parts of its camelCase names to a text."""
    if text.islower():
        return text
    parts = camel_words(text.encode())
    return f"{text} {parts}" if parts else text


def path_words(path: str) -> str:
    """Return a path in the form that is indexed."""
    return with_parts(path.encode("utf-8", "replace").decode())


def fields_of(path: str, symbols: str, headings: str, content: bytes) -> tuple[str, str, str, str, str]:
    """Return the columns of `memory_words` for a chunk; `path` is a result of `path_words`.

    The same arguments must always give the same words, because a row is deleted by its words. Change this
    only together with SCHEMA_VERSION.
    """
    return path, with_parts(symbols) if symbols else "", headings, content.decode(), camel_words(content)


_WORD = re.compile(r"[^\W_]+")

_NON_WORDS_TO_SPACES = "".join(chr(code) if chr(code).isalnum() else " " for code in range(128))
"""Translates all ASCII characters outside words to spaces: much faster than a regular expression."""

MAX_KNOWN = 50_000
"""The cache is cleared when it has more stems than this."""


class Stemmer:
    """Stems words with an in-memory full-text table that has the tokenizer of `memory_words`.

    Threads may share it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._database.execute("CREATE VIRTUAL TABLE words USING fts5 (word, tokenize = 'porter unicode61')")
        self._database.execute("CREATE VIRTUAL TABLE found USING fts5vocab (words, instance)")
        self._known: dict[str, str] = {}

    def stem(self, words: Sequence[str]) -> list[str]:
        """Return the stem of each word; "" for a text without a word."""
        new = [word for word in dict.fromkeys(words) if word not in self._known]
        if new:
            found: dict[int, str] = {}
            for row, stem in self._tokenize(new):
                found.setdefault(row, stem)
            if len(self._known) > MAX_KNOWN:
                self._known = {}
            self._known |= {word: found.get(row, "") for row, word in enumerate(new)}
        # A stem that another thread has just evicted is computed again.
        return [self._known[word] if word in self._known else self.stem([word])[0] for word in words]

    def find_stems(self, texts: Sequence[str], stems: Set[str]) -> list[set[str]]:
        """Return which of the stems occur in each text.

        Only words that begin like one of the stems are stemmed: stemming changes the end of a word, and in
        its first two letters at most `y` to `i`.
        """
        prefixes = {each for stem in stems for each in (stem[:2], stem[:2].replace("i", "y"))}
        words = [_words_with_prefix(text, prefixes) for text in texts]
        self.stem([word for each in words for word in each])
        return [set(self.stem(each)) & stems for each in words]

    def close(self) -> None:
        self._database.close()

    def _tokenize(self, words: Sequence[str]) -> list[tuple[int, str]]:
        """Return for each token the index of its word and its stem."""
        with self._lock:
            self._database.execute("BEGIN")
            try:
                self._database.executemany("INSERT INTO words (rowid, word) VALUES (?, ?)", enumerate(words))
                return self._database.execute("SELECT doc, term FROM found ORDER BY doc, offset").fetchall()
            finally:
                self._database.execute("ROLLBACK")


def _words_with_prefix(text: str, prefixes: Set[str]) -> list[str]:
    """Return the distinct words of a text that may have a stem with one of these prefixes.

    Words with non-ASCII letters are always included, because the tokenizer removes accents.
    """
    if text.isascii():
        whole = text.lower().translate(_NON_WORDS_TO_SPACES).split()
        words = {*whole, *camel_parts(text)}
        return [word for word in words if word[:2] in prefixes or word[:1] in prefixes]
    words = {*_WORD.findall(text.lower()), *camel_parts(text)}
    return [word for word in words if word[:2] in prefixes or word[:1] in prefixes or not word.isascii()]


MAX_PART_CHARACTERS = 20_000
"""Longer parts are truncated: inputs and earlier outputs may be whole files."""

MAX_WORDS = 32
"""Each word is a lookup of its own, so this bounds the time of a query."""

MAX_PAIRS = 8
MAX_PATHS = 16

FEW_WORDS = 12
"""In a part with more distinct words each word weighs less, so that a long context does not drown the
query."""

PAIR_WEIGHT = 0.3
"""Weight of a pair of words relative to the lighter of them. Values from 0.2 to 0.6 made no difference on any
repository tried."""

NAME_WEIGHT = 1.0
"""Weight of a pair that is written as one name (`event_loop`, `app.loop`)."""

ACTION_WEIGHT = 0.2
"""Weight of a word for an action, such as "add": it says little about the subject."""

STOP_WORDS = frozenset(
    """
    a about above after again against all also am an and any are as at be because been before being below
    between both but by can could did do does doing down during each few for from further had has have
    having he her here hers him his how i if in into is it its itself just may me might more most must my no
    nor not of off on once only or other our ours out over own please same shall she should so some such
    than that the their them then there these they this those through to too under until up very was we were
    what when where which while who whom why will with would you your
    """.split()  # noqa: SIM905 - a list with one word per line would fill pages
)
ACTION_WORDS = frozenset(
    """
    add added adding adds allow allowed allows change changed changes fix fixed fixes fixing improve
    improved improves improving instead made make makes making new now remove removed removes support
    supported supports update updated updates updating use used uses using
    """.split()  # noqa: SIM905 - a list with one word per line would fill pages
)

_JOINT = re.compile(r"[_.-]|::|->")
"""Separator between the words of one name."""
_MENTION = re.compile(r"[^\s\"'`()<>\[\]{},;:|*=]+")
_FILE_SUFFIX = re.compile(r"\w\.\w{1,8}$")


class Word(Struct, frozen=True):
    """A word, or a pair of adjacent words, to look up."""

    text: str
    """In lower case; the words of a pair are separated by a space."""
    stem: str
    weight: float


class QueryWords(Struct, frozen=True):
    """Words, pairs of words and paths of a query."""

    words: tuple[Word, ...] = ()
    pairs: tuple[Word, ...] = ()
    paths: tuple[str, ...] = ()
    """Texts that may be the path of a file, or the end of a path."""

    @property
    def stems(self) -> frozenset[str]:
        return frozenset(word.stem for word in self.words)


def split_query(parts: Sequence[QueryPart], stemmer: Stemmer) -> QueryWords:
    """Split the parts of a query into words; stop words are kept only if there are no others."""
    texts = [(clean_text(part.text[:MAX_PART_CHARACTERS]), part.weight) for part in parts if part.weight > 0]
    cut = [(_WORD.findall(text), weight) for text, weight in texts]
    gaps = [_WORD.split(text) for text, _ in texts]
    found = _weigh(cut, stemmer, STOP_WORDS) or _weigh(cut, stemmer, frozenset())
    words = sorted(found.values(), key=lambda word: (-word.weight, word.text))[:MAX_WORDS]
    kept = {word.stem: word for word in words}
    return QueryWords(
        tuple(words), _pairs(zip(cut, gaps, strict=True), stemmer, kept), _paths(text for text, _ in texts)
    )


Cut = Sequence[tuple[list[str], float]]
"""The words and the weight of each part of a query."""


def _weigh(cut: Cut, stemmer: Stemmer, stop: frozenset[str]) -> dict[str, Word]:
    """Return the words by stem; a repeated word weighs more, but not in proportion."""
    found: dict[str, Word] = {}
    for words, part_weight in cut:
        counts: dict[str, int] = {}
        for word in words:
            for each in (word.lower(), *camel_parts(word)):
                counts[each] = counts.get(each, 0) + 1
        kept = [word for word in counts if word not in stop]
        share = part_weight * math.sqrt(min(1.0, FEW_WORDS / max(1, len(kept))))
        for word, stem in zip(kept, stemmer.stem(kept), strict=True):
            if stem:
                weight = (
                    share
                    * (ACTION_WEIGHT if word in ACTION_WORDS else 1.0)
                    * (1 + math.log(counts[word]) / 2)
                )
                known = found.get(stem)
                found[stem] = Word(
                    known.text if known else word, stem, weight + (known.weight if known else 0)
                )
    return found


def _pairs(
    cut: Iterable[tuple[tuple[list[str], float], list[str]]], stemmer: Stemmer, kept: dict[str, Word]
) -> tuple[Word, ...]:
    """Return pairs of adjacent words that are both kept: `event loop`, `event_loop`.

    `cut` has for each part of the query its words and weight, and the texts between the words.
    """
    found: dict[str, Word] = {}
    for (words, _), gaps in cut:
        lower = [word.lower() for word in words]
        stems = stemmer.stem(lower)
        for index in range(len(words) - 1):
            first, second = kept.get(stems[index]), kept.get(stems[index + 1])
            if first and second and first is not second:
                text, stem = f"{lower[index]} {lower[index + 1]}", f"{first.stem} {second.stem}"
                share = NAME_WEIGHT if _JOINT.fullmatch(gaps[index + 1]) else PAIR_WEIGHT
                found.setdefault(stem, Word(text, stem, share * min(first.weight, second.weight)))
                if len(found) == MAX_PAIRS:
                    return tuple(found.values())
    return tuple(found.values())


def _paths(texts: Iterable[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for text in texts:
        for mention in _MENTION.findall(text):
            path = mention.rstrip(".?!").removeprefix("./").strip("/")
            if path and ("/" in path or _FILE_SUFFIX.search(path)):
                found[path] = None
                if len(found) == MAX_PATHS:
                    return tuple(found)
    return tuple(found)
