"""Looks up the words of a query in the full-text index, one word at a time.

A query per word is needed because `bm25()` has no weights for words, and because the frequency of a word
decides where it is looked up.
"""

import math
import sqlite3
from collections.abc import Sequence

from msgspec import Struct

from weft.memory.protocol import Strategy
from weft.memory.search.query import Word

FIELD_WEIGHTS = "4.0, 2.0, 1.0, 1.0, 1.0"
"""Weights of path, symbols, headings, content and parts. Halving or doubling each of them changed recall@5 by
less than 0.01 on the repositories tried."""

MAX_ROWS = 2_500
"""Words are scored in all files, rarest first, as long as they have at most this many rows together. To score
a row takes a microsecond, to skip it a twentieth of that."""

MAX_PASSED = 20_000
"""Further words are scored only in the best files found so far, and ignored once the words together have more
rows than this."""

COMMON_FIT = 1.0
"""Score of a chunk for a common word, as if it had average length and contained the word once."""

BEST_ROWS = 300
"""Maximum number of chunks per word, best first."""

RARITY_POWER = 0.85
"""Exponent of the weight of rare words; 1 is plain BM25, where a single rare word can decide the order."""

BM25_K1 = 1.2
"""Term frequency saturation of SQLite's bm25()."""

K1 = 2.0
"""Our term frequency saturation: higher, since a chunk that repeats a word is more likely about it."""

_LEAST_IDF = 1e-6
"""The idf that SQLite's bm25() uses for a word in more than half of the rows."""


class Hits(Struct, frozen=True):
    """Chunks that contain a word."""

    word: Word
    value: float
    """Weight of the word multiplied by its rarity."""
    rows: Sequence[tuple[int, int, float]]
    """Chunk id, file id and score from 0 to 3 (`K1` + 1)."""


class Counted(Struct, frozen=True):
    """Words of a query that are in the index, with their number of chunks, rarest first."""

    value: float
    """Sum of the values of all words of the query, including those that are missing or too common."""
    everywhere: Sequence[tuple[int, Word]]
    """Words to score in all files."""
    common: Sequence[tuple[int, Word]]
    """Words to score only in files that the other words found."""


class Lookup:
    """Looks up words in the chunks of some roots, or of all."""

    def __init__(self, connection: sqlite3.Connection, strategy: Strategy, roots: Sequence[str]) -> None:
        self._connection = connection
        self._columns = "{path symbols headings} : " if strategy == "metadata" else ""
        self.root_ids = self._find_root_ids(roots)
        """Ids of the roots to search; None means all."""
        statement = "SELECT count(*) FROM memory_words_docsize"  # faster than to count the chunks
        self._all_chunks: int = connection.execute(statement).fetchone()[0]
        self.chunks = self._all_chunks if self.root_ids is None else self._chunks_within(self.root_ids)
        self._counts_within: dict[str, int] = {}
        self._left_to_count = MAX_PASSED
        """Number of rows that `_count_within` may still read; beyond it counts are estimated."""

    def count(self, words: Sequence[Word]) -> Counted:
        """Count the chunks of each word, and decide where to score it; the rarest is scored in all files."""
        counted = sorted(
            ((self._count(word, MAX_PASSED), word) for word in words),
            key=lambda each: (each[0], each[1].stem),
        )
        value = sum(self.value(word, count) for count, word in counted)
        everywhere: list[tuple[int, Word]] = []
        common: list[tuple[int, Word]] = []
        rows = passed = 0
        for count, word in counted:
            if not count:
                continue
            rows, passed = rows + count, passed + count
            if not everywhere or rows <= MAX_ROWS:
                everywhere.append((count, word))
            elif passed <= MAX_PASSED:
                common.append((count, word))
        return Counted(value, everywhere, common)

    def words_within(self, counted: Sequence[tuple[int, Word]], files: Sequence[int]) -> list[Hits]:
        """Return the hits of common words in these files, all with the same score."""
        # The unary plus keeps SQLite from querying the full-text index once per chunk.
        statement = f"""SELECT memory_chunks.id, file_id, {COMMON_FIT} FROM memory_words
            JOIN memory_chunks ON memory_chunks.id = memory_words.rowid
            WHERE memory_words MATCH ? AND +memory_words.rowid IN
                (SELECT id FROM memory_chunks WHERE file_id IN ({_join(files)}))"""  # noqa: S608 - numbers only
        return [
            Hits(
                word,
                self.value(word, count),
                self._connection.execute(statement, [self._expression(word)]).fetchall(),
            )
            for count, word in counted
        ]

    def pairs(self, pairs: Sequence[Word], found: Sequence[Hits]) -> list[Hits]:
        """Return the hits of pairs whose words are both in `found`; other pairs have too many rows."""
        stems = {hits.word.stem for hits in found}
        wanted = [pair for pair in pairs if stems.issuperset(pair.stem.split())]
        counted = [(self._count(pair), pair) for pair in wanted]
        return [self.hits(pair, count) for count, pair in counted if count]

    def value(self, word: Word, count: int) -> float:
        """Return the weight of a word times its rarity in the chosen roots; `count` is over all roots."""
        within = count if self.root_ids is None else self._count_within(word, count, self.root_ids)
        rarity = math.log(1 + (self.chunks - within + 0.5) / (within + 0.5))
        return word.weight * math.pow(rarity, RARITY_POWER)

    def _count_within(self, word: Word, count: int, root_ids: Sequence[int]) -> int:
        """Return how many chunks of these roots contain the word, estimated for very common words."""
        if word.text in self._counts_within or not count:
            return self._counts_within.get(word.text, 0)
        if count >= self._left_to_count:
            return min(self.chunks, round(count * self.chunks / max(1, self._all_chunks)))
        self._left_to_count -= count
        # CROSS JOIN makes SQLite read the rows of the word first, not query the full-text index once per
        # chunk.
        query = f"""SELECT count(*) FROM memory_words
            CROSS JOIN memory_chunks ON memory_chunks.id = memory_words.rowid
            CROSS JOIN memory_files ON memory_files.id = file_id
            WHERE memory_words MATCH ? AND root_id IN ({_join(root_ids)})"""  # noqa: S608 - numbers only
        within: int = self._connection.execute(query, [self._expression(word)]).fetchone()[0]
        self._counts_within[word.text] = within
        return within

    def _chunks_within(self, root_ids: Sequence[int]) -> int:
        query = f"""SELECT count(*) FROM memory_files JOIN memory_chunks ON file_id = memory_files.id
            WHERE root_id IN ({_join(root_ids)})"""  # noqa: S608 - numbers only
        return int(self._connection.execute(query).fetchone()[0])

    def _count(self, word: Word, at_most: int = -1) -> int:
        """Count the chunks that contain the word, up to `at_most`; -1 means all."""
        query = "SELECT count(*) FROM (SELECT 1 FROM memory_words WHERE memory_words MATCH ? LIMIT ?)"
        return int(self._connection.execute(query, [self._expression(word), at_most]).fetchone()[0])

    def hits(self, word: Word, count: int) -> Hits:
        """Return the hits of a word in all files."""
        # Divide by the idf that bm25() multiplied by: it is almost 0 for a word in half of the chunks, and in
        # a small project many significant words are that frequent. bm25() uses the exact count of rows, so
        # count to the end where counting stopped early.
        rows_of_word = count if count < MAX_PASSED else self._count(word)
        idf = max(math.log((self._all_chunks - rows_of_word + 0.5) / (rows_of_word + 0.5)), _LEAST_IDF)
        rows = self._connection.execute(self._statement(), [self._expression(word), BEST_ROWS])
        found = [(chunk, file, with_our_k1(-score / idf)) for chunk, file, score in rows]
        return Hits(word, self.value(word, count), found)

    def _statement(self) -> str:
        rank = f"bm25(memory_words, {FIELD_WEIGHTS})"
        best = f"SELECT memory_words.rowid AS id, {rank} AS score FROM memory_words"  # noqa: S608 - numbers only
        where = "WHERE memory_words MATCH ?"
        if self.root_ids is not None:
            best += """ JOIN memory_chunks ON memory_chunks.id = memory_words.rowid
                JOIN memory_files ON memory_files.id = file_id"""
            where += f" AND root_id IN ({_join(self.root_ids)})"
        return f"""SELECT best.id, file_id, score FROM ({best} {where} ORDER BY score, id LIMIT ?) AS best
            JOIN memory_chunks ON memory_chunks.id = best.id"""  # noqa: S608 - numbers only

    def _expression(self, word: Word) -> str:
        # A word consists of letters, digits and spaces, so quotes suffice.
        return f'{self._columns}"{word.text}"'

    def _find_root_ids(self, roots: Sequence[str]) -> list[int] | None:
        """Return the ids of the roots; None if these are all roots of the index."""
        if not roots:
            return None
        known = self._connection.execute("SELECT path, id FROM memory_roots").fetchall()
        chosen = [number for path, number in known if path in roots]
        return None if len(chosen) == len(known) else chosen


def with_our_k1(fit: float) -> float:
    """Convert a BM25 score from SQLite's k1, which cannot be set, to ours.

    BM25 is `(k + 1) f / (f + k n)`, where `f` is the frequency of the word and `n` the relative length of the
    chunk.
    """
    times = BM25_K1 * fit / max(BM25_K1 + 1 - fit, 1e-9)
    return (K1 + 1) * times / (times + K1)


def _join(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
