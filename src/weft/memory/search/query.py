"""Words and weights of a query, cut and stemmed as the full-text index does."""

import math
import re
import sqlite3
import threading
from collections.abc import Iterable, Sequence, Set
from functools import lru_cache

from msgspec import Struct

from weft.memory.protocol import QueryPart

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


_WORD = re.compile(r"[^\W_]+")

_BY_SPACES = "".join(chr(code) if chr(code).isalnum() else " " for code in range(128))
"""Makes spaces of all in an ASCII text that is no part of a word: much faster than looking for words."""

MAX_KNOWN = 50_000
"""Stems that are remembered."""


class Stemmer:
    """A full-text table in memory, with the tokenizer of `memory_words`. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._database.execute("CREATE VIRTUAL TABLE words USING fts5 (word, tokenize = 'porter unicode61')")
        self._database.execute("CREATE VIRTUAL TABLE found USING fts5vocab (words, instance)")
        self._known: dict[str, str] = {}

    def stem(self, words: Sequence[str]) -> list[str]:
        """The stem of each word; "" for what holds no word."""
        new = [word for word in dict.fromkeys(words) if word not in self._known]
        if new:
            found: dict[int, str] = {}
            for row, stem in self._cut(new):
                found.setdefault(row, stem)
            if len(self._known) > MAX_KNOWN:
                self._known = {}
            self._known |= {word: found.get(row, "") for row, word in enumerate(new)}
        # One that another thread has just let go of is simply cut again.
        return [self._known[word] if word in self._known else self.stem([word])[0] for word in words]

    def held(self, texts: Sequence[str], stems: Set[str]) -> list[set[str]]:
        """Which of the stems are in each text.

        Only words that begin like one of the stems are cut: stemming changes the end of a word, of its first
        two letters at most `y` into `i`.
        """
        beginnings = {each for stem in stems for each in (stem[:2], stem[:2].replace("i", "y"))}
        words = [_begun_so(text, beginnings) for text in texts]
        self.stem([word for each in words for word in each])
        return [set(self.stem(each)) & stems for each in words]

    def close(self) -> None:
        """Let go of the table."""
        self._database.close()

    def _cut(self, words: Sequence[str]) -> list[tuple[int, str]]:
        """Row and stem of every word of each of these."""
        with self._lock:
            self._database.execute("BEGIN")
            try:
                self._database.executemany("INSERT INTO words (rowid, word) VALUES (?, ?)", enumerate(words))
                return self._database.execute("SELECT doc, term FROM found ORDER BY doc, offset").fetchall()
            finally:
                self._database.execute("ROLLBACK")


def _begun_so(text: str, beginnings: Set[str]) -> list[str]:
    """The different words of a text that may have a stem with one of these beginnings.

    Those with other letters than ASCII's all may: accents are taken away.
    """
    if text.isascii():
        whole = text.lower().translate(_BY_SPACES).split()
        words = {*whole, *camel_parts(text)}
        return [word for word in words if word[:2] in beginnings or word[:1] in beginnings]
    words = {*_WORD.findall(text.lower()), *camel_parts(text)}
    return [word for word in words if word[:2] in beginnings or word[:1] in beginnings or not word.isascii()]


MAX_PART_CHARACTERS = 20_000
"""What is read of a part: inputs and earlier outputs may be whole files."""

MAX_WORDS = 32
"""Each is looked up by itself, so this bounds the time of a query."""

MAX_PAIRS = 8
MAX_PATHS = 16

FEW_WORDS = 12
"""A part of more different words counts less for each of them: a long context does not drown the question."""

PAIR_WEIGHT = 0.3
"""Two words together over each alone. Between 0.2 and 0.6 it made no difference on any repository tried."""

NAME_WEIGHT = 1.0
"""The same for two words of one name (`event_loop`, `app.loop`): who writes it so means that name."""

DOING_WEIGHT = 0.2
"""Of a word that says what is done, not to what."""

STOP_WORDS = frozenset(
    """
    a about above after again against all also am an and any are as at be because been before being below
    between both but by can could did do does doing down during each few for from further had has have
    having he her here hers him his how i if in into is it its itself just may me might more most must my no
    nor not of off on once only or other our ours out over own please same shall she should so some such
    than that the their them then there these they this those through to too under until up very was we were
    what when where which while who whom why will with would you your
    """.split()  # noqa: SIM905 - a list of so many words would fill pages
)
DOING_WORDS = frozenset(
    """
    add added adding adds allow allowed allows change changed changes fix fixed fixes fixing improve
    improved improves improving instead made make makes making new now remove removed removes support
    supported supports update updated updates updating use used uses using
    """.split()  # noqa: SIM905 - a list of so many words would fill pages
)

_JOINT = re.compile(r"[_.-]|::|->")
"""What stands between the words of one name."""
_MENTION = re.compile(r"[^\s\"'`()<>\[\]{},;:|*=]+")
_LIKE_A_FILE = re.compile(r"\w\.\w{1,8}$")


class Word(Struct, frozen=True):
    """A word, or two that stand together, to look for."""

    text: str
    """In lower case; the words of a pair with a space between."""
    stem: str
    weight: float


class QueryWords(Struct, frozen=True):
    """A query, taken apart."""

    words: tuple[Word, ...] = ()
    pairs: tuple[Word, ...] = ()
    paths: tuple[str, ...] = ()
    """What may be the path of a file, or the end of one."""

    @property
    def stems(self) -> frozenset[str]:
        """The stems of the words."""
        return frozenset(word.stem for word in self.words)


def words_of(parts: Sequence[QueryPart], stemmer: Stemmer) -> QueryWords:
    """What the parts of a query look for; stop words only when there is nothing else."""
    texts = [(_clean(part.text), part.weight) for part in parts if part.weight > 0]
    cut = [(_WORD.findall(text), weight) for text, weight in texts]
    gaps = [_WORD.split(text) for text, _ in texts]
    found = _weighed(cut, stemmer, STOP_WORDS) or _weighed(cut, stemmer, frozenset())
    words = sorted(found.values(), key=lambda word: (-word.weight, word.text))[:MAX_WORDS]
    kept = {word.stem: word for word in words}
    return QueryWords(
        tuple(words), _pairs(zip(cut, gaps, strict=True), stemmer, kept), _paths(text for text, _ in texts)
    )


def _clean(text: str) -> str:
    """As much of the text as is read, without what no database takes (half of a surrogate pair)."""
    return text[:MAX_PART_CHARACTERS].encode("utf-8", "replace").decode()


Cut = Sequence[tuple[list[str], float]]


def _weighed(cut: Cut, stemmer: Stemmer, stop: frozenset[str]) -> dict[str, Word]:
    """The words by stem. Said twice counts more, but not twice."""
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
                    share * (DOING_WEIGHT if word in DOING_WORDS else 1.0) * (1 + math.log(counts[word]) / 2)
                )
                known = found.get(stem)
                found[stem] = Word(
                    known.text if known else word, stem, weight + (known.weight if known else 0)
                )
    return found


def _pairs(
    cut: Iterable[tuple[tuple[list[str], float], list[str]]], stemmer: Stemmer, kept: dict[str, Word]
) -> tuple[Word, ...]:
    """Words that stand together in the query and are both looked for: `event loop`, `event_loop`."""
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
            path = mention.rstrip(".?!").removeprefix("./").strip("/").replace("\0", "")
            if path and ("/" in path or _LIKE_A_FILE.search(path)):
                found[path] = None
                if len(found) == MAX_PATHS:
                    return tuple(found)
    return tuple(found)
