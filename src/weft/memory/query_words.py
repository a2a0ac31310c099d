"""What a query looks for: its words with their weights, pairs that stand together, paths it names."""

import math
import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from weft.memory.protocol import QueryPart
from weft.memory.stems import Stemmer
from weft.memory.words import camel_parts

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

_WORD = re.compile(r"[^\W_]+")
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
