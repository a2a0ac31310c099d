"""Reorders the best matches by embeddings, which are stored in the index.

The chunks of an unchanged file are embedded only once.
"""

import hashlib
import math
from array import array
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from weft.memory.index.database import clear_errors, transaction
from weft.memory.index.index import SqliteIndex
from weft.memory.protocol import Chunk, Embedder, Match, Matcher, Query
from weft.memory.search.ranking import NAMED_SHARE

Vector = Sequence[float]
Key = tuple[int, int]
"""Id of the file (-1 if it is no longer indexed) and hash of the text."""

_NO_FILE = -1


class Vectors(Struct, frozen=True):
    """Access to the table `memory_vectors` for one embedder. Threads may share it."""

    index: SqliteIndex
    embedder: Embedder

    def embed(self, texts: Sequence[Chunk]) -> list[Vector]:
        """Return the vector of the text of each chunk; missing vectors are computed and stored."""
        with clear_errors(self.index.path):
            files = self._file_ids({(text.root, text.path) for text in texts})
            keys = [(files.get((text.root, text.path), _NO_FILE), _hash(text.text)) for text in texts]
            known = self._load(keys)
            new = {key: text.text for key, text in zip(keys, texts, strict=True) if key not in known}
            if new:
                made = self.embedder.embed(list(new.values()))
                # 32-bit floats as in the table, so that new and stored vectors give the same order.
                kept = {key: array("f", vector) for key, vector in zip(new, made, strict=True)}
                self._store(kept)
                known |= kept
        return [known[key] for key in keys]

    def _file_ids(self, files: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
        statement = """SELECT memory_files.id FROM memory_files JOIN memory_roots ON memory_roots.id = root_id
            WHERE memory_roots.path = ? AND memory_files.path = ?"""
        rows = {file: self.index.connection.execute(statement, file).fetchone() for file in files}
        return {file: row[0] for file, row in rows.items() if row is not None}

    def _load(self, keys: Sequence[Key]) -> dict[Key, Vector]:
        files = ", ".join(str(file) for file, _ in set(keys))
        hashes = ", ".join(str(text_hash) for _, text_hash in set(keys))
        rows = self.index.connection.execute(
            f"""SELECT file_id, chunk_hash, vector FROM memory_vectors
            WHERE file_id IN ({files}) AND chunk_hash IN ({hashes}) AND embedder = ?""",  # noqa: S608 - numbers only
            [self.embedder.id],
        )
        return {(file, text_hash): array("f", vector) for file, text_hash, vector in rows}

    def _store(self, vectors: Mapping[Key, "array[float]"]) -> None:
        """Store the vectors of files that are still indexed; delete their vectors of other embedders."""
        model = self.embedder.id
        rows = [(text_hash, model, vector.tobytes(), file) for (file, text_hash), vector in vectors.items()]
        connection = self.index.connection
        with transaction(connection):
            connection.executemany(
                "DELETE FROM memory_vectors WHERE file_id = ? AND embedder <> ?",
                [(file, model) for file in {file for file, _ in vectors}],
            )
            connection.executemany(
                "INSERT OR REPLACE INTO memory_vectors SELECT id, ?, ?, ? FROM memory_files WHERE id = ?",
                rows,
            )


def _hash(text: str) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


CANDIDATES = 40
"""How many lexical matches are compared by embedding: to embed a chunk takes tens of milliseconds."""

MEANING_WEIGHT = 0.5
"""Weight of the rank by embedding, relative to the lexical rank."""

DAMPING = 10
"""Added to ranks before they are inverted; a larger value makes the first ranks stand out less."""

MAX_QUERY_CHARACTERS = 2_000


class HybridMatcher(Struct, frozen=True):
    """Fuses the lexical and the embedding order of the same matches. Files named in the query stay first."""

    lexical: Matcher
    embedder: Embedder
    vectors: Vectors

    def match(self, query: Query) -> list[Match]:
        """Return the best matches, best first, with the lexical scores reassigned in descending order."""
        found = self.lexical.match(replace(query, limit=max(query.limit, CANDIDATES)))
        if len(found) < 2:
            return found[: query.limit]
        first, remaining = found[:CANDIDATES], found[CANDIDATES:]
        by_meaning = self._order_by_meaning(_query_text(query), first)
        ranks = {index: rank for rank, index in enumerate(by_meaning)}
        # Only files that the query names have scores of at least 1 - NAMED_SHARE.
        fused = [
            (match.score < 1 - NAMED_SHARE, -_fuse(index, ranks[index]), index)
            for index, match in enumerate(first)
        ]
        order = [first[index] for _, _, index in sorted(fused)] + remaining
        scores = sorted((match.score for match in order), reverse=True)
        scored = [replace(match, score=score) for match, score in zip(order, scores, strict=True)]
        return scored[: query.limit]

    def _order_by_meaning(self, text: str, matches: list[Match]) -> list[int]:
        """Return the indexes of the matches, nearest to the text first."""
        [wanted] = self.embedder.embed([text])
        vectors = self.vectors.embed([_chunk_to_embed(match) for match in matches])
        similarity = [math.fsum(a * b for a, b in zip(wanted, vector, strict=True)) for vector in vectors]
        return sorted(range(len(matches)), key=lambda index: (-similarity[index], index))


def _chunk_to_embed(match: Match) -> Chunk:
    # The path often names the subject where the lines do not.
    chunk = match.chunk
    return replace(chunk, text=f"{chunk.path.replace('/', ' ').replace('_', ' ')}\n{chunk.text}")


def _query_text(query: Query) -> str:
    parts = sorted(query.parts, key=lambda part: -part.weight)
    return "\n".join(part.text for part in parts)[:MAX_QUERY_CHARACTERS]


def _fuse(by_words: int, by_meaning: int) -> float:
    """Return a score from 0 to 1 for two ranks that count from 0."""
    total = 1 / (DAMPING + by_words) + MEANING_WEIGHT / (DAMPING + by_meaning)
    return total * DAMPING / (1 + MEANING_WEIGHT)
