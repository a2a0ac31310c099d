"""Which chunks hold a word, and how well: the full-text index asked for one word at a time.

One at a time, because `bm25()` knows no weights of words, and because how common a word is decides
whether it is looked up at all.
"""

import math
import sqlite3
from collections.abc import Sequence

from msgspec import Struct

from weft.memory.protocol import Strategy
from weft.memory.search.query import Word

FIELD_WEIGHTS = "4.0, 2.0, 1.0, 1.0, 1.0"
"""Of path, symbols, headings, content, parts: how many times a word there counts. Half and double of each
moved recall@5 by less than 0.01 on the repositories tried."""

MAX_ROWS = 2_500
"""How many rows of the words of one query are weighed wherever they are, the rarest words first. To weigh a
row takes a microsecond, to pass over it a twentieth of that."""

MAX_PASSED = 20_000
"""How many rows the other words may have together; those are weighed in the files that are already good."""

COMMON_FIT = 1.0
"""How well a chunk fits a common word that it has: as much as one of middling length with the word once."""

BEST_ROWS = 300
"""How many chunks of one word are looked at, the best first."""

RARITY_POWER = 0.85
"""How much rare words count above common ones; 1 would be BM25's own, which lets one rare word decide."""

BM25_K1 = 1.2
"""How soon a further time of a word in a chunk counts less, as SQLite's bm25() has it."""

K1 = 2.0
"""The same as we have it: later, since a chunk that names a thing often is more likely about it."""

_LEAST_IDF = 1e-6
"""What SQLite's bm25() takes for a word of more than half of the rows."""


class Hits(Struct, frozen=True):
    """The chunks that hold a word."""

    word: Word
    value: float
    """How much it counts: its weight, and how rare it is."""
    rows: Sequence[tuple[int, int, float]]
    """Chunk, file, and how well it fits, from 0 to 3 (k1 + 1 of BM25)."""


class Counted(Struct, frozen=True):
    """The words of a query that are in the index, each with the number of its chunks, the rarest first."""

    value: float
    """What all words of the query count together, those included that are not there or too common."""
    everywhere: Sequence[tuple[int, Word]]
    """To be weighed wherever they are."""
    common: Sequence[tuple[int, Word]]
    """To be weighed only in files that the others found."""


class Lookup:
    """Asks for words in the chunks of some roots, or of all."""

    def __init__(self, connection: sqlite3.Connection, strategy: Strategy, roots: Sequence[str]) -> None:
        self._connection = connection
        self._columns = "{path symbols headings} : " if strategy == "metadata" else ""
        self._root_ids = self._chosen(roots)
        # Of the full-text index itself, as bm25() counts: words of damaged files may have stayed behind.
        statement = "SELECT count(*) FROM memory_words_docsize"
        self._all_chunks: int = connection.execute(statement).fetchone()[0]
        self.chunks = self._all_chunks if self._root_ids is None else self._chunks_within(self._root_ids)
        self._held: dict[str, int] = {}
        self._left_to_count = MAX_PASSED

    @property
    def root_ids(self) -> list[int] | None:
        """The roots that are asked for; None: all."""
        return self._root_ids

    def count(self, words: Sequence[Word]) -> Counted:
        """How common the words are, and which are to be weighed where; at least one is everywhere."""
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

    def words(self, counted: Sequence[tuple[int, Word]]) -> list[Hits]:
        """The hits of the words, wherever they are."""
        return [self._hits(word, count) for count, word in counted]

    def words_within(self, counted: Sequence[tuple[int, Word]], files: Sequence[int]) -> list[Hits]:
        """The hits of common words in these files; how often a chunk has such a word is all the same."""
        # The plus keeps SQLite from asking the full-text index for each of the chunks by itself.
        statement = f"""SELECT memory_chunks.id, file_id, {COMMON_FIT} FROM memory_words
            JOIN memory_chunks ON memory_chunks.id = memory_words.rowid
            WHERE memory_words MATCH ? AND +memory_words.rowid IN
                (SELECT id FROM memory_chunks WHERE file_id IN ({_list(files)}))"""  # noqa: S608 - numbers only
        return [
            Hits(
                word,
                self.value(word, count),
                self._connection.execute(statement, [self._expression(word)]).fetchall(),
            )
            for count, word in counted
        ]

    def pairs(self, pairs: Sequence[Word], found: Sequence[Hits]) -> list[Hits]:
        """The hits of pairs of words that were weighed everywhere: those of the others are too many."""
        stems = {hits.word.stem for hits in found}
        wanted = [pair for pair in pairs if stems.issuperset(pair.stem.split())]
        counted = [(self._count(pair), pair) for pair in wanted]
        return [self._hits(pair, count) for count, pair in counted if count]

    def value(self, word: Word, count: int) -> float:
        """How much a word counts that so many chunks of all roots hold: how rare it is in the chosen ones."""
        held = count if self._root_ids is None else self._held_within(word, count, self._root_ids)
        rarity = math.log(1 + (self.chunks - held + 0.5) / (held + 0.5))
        return word.weight * math.pow(rarity, RARITY_POWER)

    def _held_within(self, word: Word, count: int, root_ids: Sequence[int]) -> int:
        """How many chunks of these roots hold the word; of very common words about how many."""
        if word.text in self._held or not count:
            return self._held.get(word.text, 0)
        if count >= self._left_to_count:
            return min(self.chunks, round(count * self.chunks / max(1, self._all_chunks)))
        self._left_to_count -= count
        # CROSS: the rows of the word first, never the full-text index for each of the chunks by itself.
        query = f"""SELECT count(*) FROM memory_words
            CROSS JOIN memory_chunks ON memory_chunks.id = memory_words.rowid
            CROSS JOIN memory_files ON memory_files.id = file_id
            WHERE memory_words MATCH ? AND root_id IN ({_list(root_ids)})"""  # noqa: S608 - numbers only
        self._held[word.text] = self._connection.execute(query, [self._expression(word)]).fetchone()[0]
        return self._held[word.text]

    def _chunks_within(self, root_ids: Sequence[int]) -> int:
        query = f"""SELECT count(*) FROM memory_files JOIN memory_chunks ON file_id = memory_files.id
            WHERE root_id IN ({_list(root_ids)})"""  # noqa: S608 - numbers only
        return int(self._connection.execute(query).fetchone()[0])

    def _count(self, word: Word, at_most: int = -1) -> int:
        """How many chunks hold the word; counted no further than `at_most`."""
        query = "SELECT count(*) FROM (SELECT 1 FROM memory_words WHERE memory_words MATCH ? LIMIT ?)"
        return int(self._connection.execute(query, [self._expression(word), at_most]).fetchone()[0])

    def _hits(self, word: Word, count: int) -> Hits:
        # What bm25() multiplied by is taken out again: it is next to nothing for a word of half of the
        # chunks, which in a small project is many a telling word. It knows how many rows there are, where
        # counting ended early.
        rows_of_word = count if count < MAX_PASSED else self._count(word)
        idf = max(math.log((self._all_chunks - rows_of_word + 0.5) / (rows_of_word + 0.5)), _LEAST_IDF)
        rows = self._connection.execute(self._statement(), [self._expression(word), BEST_ROWS])
        found = [(chunk, file, with_our_k1(-score / idf)) for chunk, file, score in rows]
        return Hits(word, self.value(word, count), found)

    def _statement(self) -> str:
        rank = f"bm25(memory_words, {FIELD_WEIGHTS})"
        best = f"SELECT memory_words.rowid AS id, {rank} AS score FROM memory_words"  # noqa: S608 - numbers only
        where = "WHERE memory_words MATCH ?"
        if self._root_ids is not None:
            best += """ JOIN memory_chunks ON memory_chunks.id = memory_words.rowid
                JOIN memory_files ON memory_files.id = file_id"""
            where += f" AND root_id IN ({_list(self._root_ids)})"
        return f"""SELECT best.id, file_id, score FROM ({best} {where} ORDER BY score, id LIMIT ?) AS best
            JOIN memory_chunks ON memory_chunks.id = best.id"""  # noqa: S608 - numbers only

    def _expression(self, word: Word) -> str:
        """What the full-text index is asked. A word is letters, digits and spaces, so quotes suffice."""
        return f'{self._columns}"{word.text}"'

    def _chosen(self, roots: Sequence[str]) -> list[int] | None:
        """The numbers of the roots; None when there are no others."""
        if not roots:
            return None
        known = self._connection.execute("SELECT path, id FROM memory_roots").fetchall()
        chosen = [number for path, number in known if path in roots]
        return None if len(chosen) == len(known) else chosen


def with_our_k1(fit: float) -> float:
    """What BM25 gives with our k1, of what it gives with SQLite's own, which cannot be set.

    That is `(k + 1) f / (f + k n)`, where `f` is how often the word is there and `n` how long the chunk is.
    """
    times = BM25_K1 * fit / max(BM25_K1 + 1 - fit, 1e-9)
    return (K1 + 1) * times / (times + K1)


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
