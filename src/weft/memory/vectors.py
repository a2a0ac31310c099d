"""Vectors of chunks, kept beside the index by the hash of their text: nothing is embedded twice."""

import hashlib
import threading
from array import array
from collections.abc import Sequence
from pathlib import Path

from weft.memory.database import connect, transaction
from weft.memory.protocol import Embedder

Vector = Sequence[float]


class Vectors:
    """The table `memory_vectors` for one embedder. Threads may share it."""

    def __init__(self, path: Path, embedder: Embedder) -> None:
        self._embedder = embedder
        self._lock = threading.Lock()
        self._connection = connect(path)

    def of(self, texts: Sequence[str]) -> list[Vector]:
        """The vector of each text; those that are not known are made and kept."""
        hashes = [_hash(text) for text in texts]
        with self._lock:
            known = self._known(hashes)
            new = {number: text for number, text in zip(hashes, texts, strict=True) if number not in known}
            if new:
                made = self._embedder.embed(list(new.values()))
                # As floats of 32 bits, which is what comes back later: the same answer with and without.
                kept = {number: array("f", vector) for number, vector in zip(new, made, strict=True)}
                self._keep(kept)
                known |= kept
        return [known[number] for number in hashes]

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    def _known(self, hashes: Sequence[int]) -> dict[int, Vector]:
        numbers = ", ".join(map(str, set(hashes)))
        rows = self._connection.execute(
            f"""SELECT chunk_hash, vector FROM memory_vectors
            WHERE embedder = ? AND chunk_hash IN ({numbers})""",  # noqa: S608 - numbers only
            [self._embedder.id],
        )
        return {number: array("f", vector) for number, vector in rows}

    def _keep(self, vectors: dict[int, "array[float]"]) -> None:
        rows = [(number, self._embedder.id, vector.tobytes()) for number, vector in vectors.items()]
        with transaction(self._connection):
            self._connection.executemany("INSERT OR REPLACE INTO memory_vectors VALUES (?, ?, ?)", rows)


def _hash(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
