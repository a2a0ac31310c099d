"""Reorder the best matches by embeddings, which are stored beside the index.

As long as a file is as it was, nothing of it is embedded twice.
"""

import hashlib
import math
import threading
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from weft.memory.index.database import connect, require_shape, transaction
from weft.memory.protocol import Embedder, Match, Matcher, Query
from weft.memory.search.ranking import NAMED_SHARE

Vector = Sequence[float]
Key = tuple[int, int]
"""The number of the file, -1 for one that is not indexed any more; and the hash of the text."""

_NO_FILE = -1


class Embedded(Struct, frozen=True):
    """A text that has a vector, and the file that it is of."""

    root: str
    path: str
    text: str


class Vectors:
    """The table `memory_vectors` for one embedder. Threads may share it."""

    def __init__(self, path: Path, embedder: Embedder) -> None:
        self._embedder = embedder
        self._lock = threading.Lock()
        self._connection = connect(path)

    def of(self, pieces: Sequence[Embedded]) -> list[Vector]:
        """The vector of each text; those that are not known are made and kept."""
        with self._lock:
            files = self._files({(piece.root, piece.path) for piece in pieces})
            keys = [(files.get((one.root, one.path), _NO_FILE), _hash(one.text)) for one in pieces]
            known = self._known(keys)
            new = {key: piece.text for key, piece in zip(keys, pieces, strict=True) if key not in known}
            if new:
                made = self._embedder.embed(list(new.values()))
                # As floats of 32 bits, which is what comes back later: the same answer with and without.
                kept = {key: array("f", vector) for key, vector in zip(new, made, strict=True)}
                self._keep(kept)
                known |= kept
        return [known[key] for key in keys]

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    def _files(self, files: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """The numbers of files, by root and path."""
        statement = """SELECT memory_files.id FROM memory_files JOIN memory_roots ON memory_roots.id = root_id
            WHERE memory_roots.path = ? AND memory_files.path = ?"""
        rows = {file: self._connection.execute(statement, file).fetchone() for file in files}
        return {file: row[0] for file, row in rows.items() if row is not None}

    def _known(self, keys: Sequence[Key]) -> dict[Key, Vector]:
        files = ", ".join(str(file) for file, _ in set(keys))
        numbers = ", ".join(str(number) for _, number in set(keys))
        rows = self._connection.execute(
            f"""SELECT file_id, chunk_hash, vector FROM memory_vectors
            WHERE file_id IN ({files}) AND chunk_hash IN ({numbers}) AND embedder = ?""",  # noqa: S608 - numbers only
            [self._embedder.id],
        )
        return {(file, number): array("f", vector) for file, number, vector in rows}

    def _keep(self, vectors: Mapping[Key, "array[float]"]) -> None:
        """Keep the vectors of files that are still there; those that another embedder made of them go."""
        model = self._embedder.id
        rows = [(number, model, vector.tobytes(), file) for (file, number), vector in vectors.items()]
        with transaction(self._connection):
            require_shape(self._connection)
            self._connection.executemany(
                "DELETE FROM memory_vectors WHERE file_id = ? AND embedder <> ?",
                [(file, model) for file in {file for file, _ in vectors}],
            )
            self._connection.executemany(
                "INSERT OR REPLACE INTO memory_vectors SELECT id, ?, ?, ? FROM memory_files WHERE id = ?",
                rows,
            )


def _hash(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


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
