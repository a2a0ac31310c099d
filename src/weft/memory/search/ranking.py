"""Files and their chunks in the order in which they fit a query. Pure: what was looked up comes in."""

import math
import re
from collections.abc import Mapping, Sequence, Set

from msgspec import Struct

from weft.memory.files.classify import kind_factor
from weft.memory.search.lookup import Hits

CHUNK_SHARES = (1.0, 0.6, 0.5, 0.4, 0.3, 0.3)
"""What the best chunks of a file add to its score, the best first: a file that speaks of the matter in
several places is better than one that names it once; further places say no more."""

COVERAGE_SHARE = 0.35
"""How much of a file's score hangs on how many of the query's words it has."""

SIZE_SHARE = 0.15
"""A longer file is more likely the one that matters, by the logarithm of its lines."""

NAME_FACTOR = 1.3
"""For a file all words of whose name are in the query: `chunks.py` for "how are chunks cut"."""

HALF = 4.0
"""A file's score is a half when its sum is this many times what all words of the query count together."""

NAMED_SHARE = 0.06
"""The uppermost part of 0..1 is for files whose path is in the query; its upper half for whole
paths and names."""

FURTHER_CHUNKS = 2
"""How many chunks of a file may follow its best one in an answer."""

FURTHER_SHARE = 0.5
"""How good they must be, compared with the best one."""

_WORD = re.compile(r"[^\W_]+")


class FoundFile(Struct, frozen=True):
    """A file that holds words of the query."""

    id: int
    path: str
    lines: int
    name_stems: frozenset[str] = frozenset()
    """Of the words of its name without the ending."""
    naming: int = 0
    """1: the query has the end of its path, or its name in another form; 2: its whole path, or its name."""


class Ranked(Struct, frozen=True):
    """A chunk in its place."""

    chunk_id: int
    file_id: int
    score: float


class Tally:
    """What the words of a query add up to, for chunks and for files."""

    def __init__(self, words: Sequence[Hits], pairs: Sequence[Hits], all_words_value: float) -> None:
        self._total = all_words_value or 1.0
        self._covered: dict[int, float] = {}
        self._values: dict[int, dict[int, float]] = {}
        """By file and chunk: what the chunk's words add up to."""
        self._sums: dict[int, float] = {}
        self.chunks: dict[int, list[tuple[int, float]]] = {}
        """By file, the best first, each with what its words add up to."""
        self.add(words, pairs)

    def add(self, words: Sequence[Hits], pairs: Sequence[Hits] = ()) -> None:
        """Take in further hits."""
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
            best = sorted(self._values[file].items(), key=_best_first)[: len(CHUNK_SHARES)]
            self.chunks[file] = best
            self._sums[file] = sum(
                share * value for share, (_, value) in zip(CHUNK_SHARES, best, strict=False)
            )

    def best_files(self, count: int) -> list[int]:
        """The files that add up to most, before anything else is known of them."""
        sums = {file: self._sum(file) for file in self.chunks}
        return sorted(sums, key=lambda file: (-sums[file], file))[:count]

    def _sum(self, file: int) -> float:
        covered = min(1.0, self._covered.get(file, 0.0) / self._total)
        return self._sums.get(file, 0.0) * (1 - COVERAGE_SHARE + COVERAGE_SHARE * covered)

    def score(self, file: FoundFile, stems: Set[str]) -> float:
        """From 0 to 1: how well the file fits."""
        points = (
            self._sum(file.id) * (1 + SIZE_SHARE * math.log1p(file.lines)) * kind_factor(file.path, stems)
        )
        if file.name_stems and file.name_stems <= stems:
            points *= NAME_FACTOR
        return with_naming(points / (points + HALF * self._total), file.naming)


def _best_first(chunk: tuple[int, float]) -> tuple[float, int]:
    return -chunk[1], chunk[0]


def with_naming(score: float, naming: int) -> float:
    """The score in the part of 0..1 that files of this naming have to themselves."""
    if naming == 0:
        return score * (1 - NAMED_SHARE)
    half = NAMED_SHARE / 2
    return 1 - NAMED_SHARE + half * (naming - 1) + half * score


def rank(
    files: Sequence[FoundFile], tally: Tally, stems: Set[str], first_chunks: Mapping[int, int]
) -> list[Ranked]:
    """The chunks of the files, the best first.

    Within one answer scores are comparable: a file's best chunk has the score of the file, its others have
    their part of it.

    `first_chunks` are for files that are named but hold no word of the query.
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
    """The words of a file's name without its ending; of a package's `__init__` or `index` there are none."""
    name = path.rsplit("/", 1)[-1].split(".", 1)[0]
    return (
        []
        if name in ("__init__", "index", "main", "__main__")
        else [word.lower() for word in _WORD.findall(name)]
    )
