"""Ranks files and their chunks by the hits of a query. Pure: the hits are passed in."""

import math
import re
from collections.abc import Mapping, Sequence, Set

from msgspec import Struct

from weft.memory.files.classify import kind_factor
from weft.memory.search.lookup import Hits

CHUNK_SHARES = (1.0, 0.6, 0.5, 0.4, 0.3, 0.3)
"""Shares of a file's best chunks in its score, best first: a file that treats a subject in several chunks is
better than one that mentions it once, and chunks beyond these add nothing."""

COVERAGE_SHARE = 0.35
"""Share of a file's score that depends on how many words of the query it contains."""

SIZE_SHARE = 0.15
"""Bonus for longer files, by the logarithm of their lines: they are more often the relevant ones."""

NAME_FACTOR = 1.3
"""Factor for a file with all words of its name in the query: `chunks.py` for "how are chunks cut"."""

HALF = 4.0
"""A file has score 0.5 if its points are this many times the value of all words of the query."""

NAMED_SHARE = 0.06
"""The highest scores, this share of 0..1, are for files named in the query; half of them for exact names."""

FURTHER_CHUNKS = 2
"""Maximum number of chunks of a file in a result after its best one."""

FURTHER_SHARE = 0.5
"""Minimum score of further chunks, relative to the best one."""

_WORD = re.compile(r"[^\W_]+")


class FoundFile(Struct, frozen=True):
    """A file that contains words of the query, or that the query names."""

    id: int
    path: str
    lines: int
    name_stems: frozenset[str] = frozenset()
    """Stems of the words of its name without the suffix."""
    naming: int = 0
    """2: the query contains its path or its exact name; 1: the end of its path, or its name in an inflected
    form; 0: the query does not name it."""


class Ranked(Struct, frozen=True):
    """A chunk with its final score."""

    chunk_id: int
    file_id: int
    score: float


class Tally:
    """Sums of the values of hits, per chunk and per file."""

    def __init__(self, words: Sequence[Hits], pairs: Sequence[Hits], all_words_value: float) -> None:
        self._total = all_words_value or 1.0
        self._covered: dict[int, float] = {}
        """Sum of the values of the query's words that a file contains, by file."""
        self._values: dict[int, dict[int, float]] = {}
        """Sum of the values of a chunk's words, by file and chunk."""
        self._sums: dict[int, float] = {}
        """Sum of the values of a file's best chunks, weighted by CHUNK_SHARES, by file."""
        self.chunks: dict[int, list[tuple[int, float]]] = {}
        """Best chunks by file, best first, each with the sum of the values of its words."""
        self.add(words, pairs)

    def add(self, words: Sequence[Hits], pairs: Sequence[Hits] = ()) -> None:
        changed: set[int] = set()
        for hits in (*words, *pairs):
            for chunk, file, fit in hits.rows:
                values = self._values.setdefault(file, {})
                values[chunk] = values.get(chunk, 0.0) + hits.value * fit
                changed.add(file)
        for hits in words:
            for file in {file for _, file, _ in hits.rows}:
                self._covered[file] = self._covered.get(file, 0.0) + hits.value
        for file in changed:
            best = sorted(self._values[file].items(), key=lambda chunk: (-chunk[1], chunk[0]))[
                : len(CHUNK_SHARES)
            ]
            self.chunks[file] = best
            self._sums[file] = sum(
                share * value for share, (_, value) in zip(CHUNK_SHARES, best, strict=False)
            )

    def best_files(self, count: int) -> list[int]:
        """Return the files with the largest sums, before metadata is considered."""
        sums = {file: self._sum(file) for file in self.chunks}
        return sorted(sums, key=lambda file: (-sums[file], file))[:count]

    def _sum(self, file: int) -> float:
        covered = min(1.0, self._covered.get(file, 0.0) / self._total)
        return self._sums.get(file, 0.0) * (1 - COVERAGE_SHARE + COVERAGE_SHARE * covered)

    def score(self, file: FoundFile, stems: Set[str]) -> float:
        """Return the score of a file, from 0 to 1; `stems` are those of the query."""
        points = (
            self._sum(file.id) * (1 + SIZE_SHARE * math.log1p(file.lines)) * kind_factor(file.path, stems)
        )
        if file.name_stems and file.name_stems <= stems:
            points *= NAME_FACTOR
        return with_naming(points / (points + HALF * self._total), file.naming)


def with_naming(score: float, naming: int) -> float:
    """Scale a score into the part of 0..1 that is reserved for this kind of naming."""
    if naming == 0:
        return score * (1 - NAMED_SHARE)
    half = NAMED_SHARE / 2
    return 1 - NAMED_SHARE + half * (naming - 1) + half * score


def rank(
    files: Sequence[FoundFile], tally: Tally, stems: Set[str], first_chunks: Mapping[int, int]
) -> list[Ranked]:
    """Return the chunks of the files, best first.

    The best chunk of a file has the score of the file, its other chunks a share of it. `first_chunks` are
    used for files that the query names but that contain none of its words.
    """
    ranked: list[tuple[float, str, int, Ranked]] = []
    for file in files:
        score = tally.score(file, stems)
        chunks = tally.chunks.get(file.id) or [(first_chunks[file.id], 1.0)]
        best = chunks[0][1]
        for chunk, value in chunks[: 1 + FURTHER_CHUNKS]:
            share = value / best
            if share >= FURTHER_SHARE:
                ranked.append((-score * share, file.path, chunk, Ranked(chunk, file.id, score * share)))
    return [each for *_, each in sorted(ranked, key=lambda each: each[:3])]


def name_words(path: str) -> list[str]:
    """Return the words of a file's name without its suffix; empty for general names such as `__init__`."""
    name = path.rsplit("/", 1)[-1].split(".", 1)[0]
    return (
        []
        if name in ("__init__", "index", "main", "__main__")
        else [word.lower() for word in _WORD.findall(name)]
    )
