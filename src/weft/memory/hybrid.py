"""The best matches by words, put in a new order by meaning too: for who has an embedder."""

import math

from msgspec.structs import replace

from weft.memory.protocol import Embedder, Match, Matcher, Query
from weft.memory.ranking import NAMED_SHARE
from weft.memory.vectors import Embedded, Vector, Vectors

CANDIDATES = 40
"""How many matches by words are compared by meaning: embedding a chunk takes tens of milliseconds."""

MEANING_WEIGHT = 0.5
"""Of a rank by meaning over one by words."""

DAMPING = 10
"""Added to ranks before they are inverted: how little the first places stand out."""

MAX_QUESTION_CHARACTERS = 2_000


class HybridMatcher:
    """Fuses two orders of the same matches by their ranks. Files that the query names stay first."""

    def __init__(self, lexical: Matcher, embedder: Embedder, vectors: Vectors) -> None:
        self._lexical = lexical
        self._embedder = embedder
        self._vectors = vectors

    def match(self, query: Query) -> list[Match]:
        """The best matches, the best first; scores are sums of inverted ranks, from 0 to 1."""
        found = self._lexical.match(replace(query, limit=max(query.limit, CANDIDATES)))
        if len(found) < 2:
            return found[: query.limit]
        first, rest = found[:CANDIDATES], found[CANDIDATES:]
        by_meaning = self._order(_question(query), first)
        places = {place: rank for rank, place in enumerate(by_meaning)}
        fused = [
            (not _is_named(match), -_fused(place, places[place]), place) for place, match in enumerate(first)
        ]
        order = [first[place] for _, _, place in sorted(fused)] + rest
        return _scored(order)[: query.limit]

    def _order(self, question: str, matches: list[Match]) -> list[int]:
        """The places of the matches, the nearest in meaning first."""
        [asked] = self._embedder.embed([question])
        vectors = self._vectors.of([_embedded(match) for match in matches])
        likeness = [_product(asked, vector) for vector in vectors]
        return sorted(range(len(matches)), key=lambda place: (-likeness[place], place))


def _embedded(match: Match) -> Embedded:
    """What is embedded of a chunk: the path says much that the lines do not."""
    chunk = match.chunk
    text = f"{chunk.path.replace('/', ' ').replace('_', ' ')}\n{chunk.text}"
    return Embedded(chunk.root, chunk.path, text)


def _question(query: Query) -> str:
    parts = sorted(query.parts, key=lambda part: -part.weight)
    return "\n".join(part.text for part in parts)[:MAX_QUESTION_CHARACTERS]


def _is_named(match: Match) -> bool:
    return match.score >= 1 - NAMED_SHARE


def _fused(by_words: int, by_meaning: int) -> float:
    """From 0 to 1, for places from 0."""
    total = 1 / (DAMPING + by_words) + MEANING_WEIGHT / (DAMPING + by_meaning)
    return total * DAMPING / (1 + MEANING_WEIGHT)


def _scored(order: list[Match]) -> list[Match]:
    """The matches with the scores that they had, handed out anew in falling order."""
    scores = sorted((match.score for match in order), reverse=True)
    return [replace(match, score=score) for match, score in zip(order, scores, strict=True)]


def _product(one: Vector, other: Vector) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))
