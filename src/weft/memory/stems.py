"""Words as the full-text index cuts and stems them: SQLite itself does it, so both sides always agree."""

import sqlite3
import threading
from collections.abc import Iterable, Sequence

Row = Sequence[str]

MAX_KNOWN = 50_000
"""Stems that are remembered."""


class Stemmer:
    """A full-text table in memory, with the tokenizer of `memory_words`. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._database.execute(
            "CREATE VIRTUAL TABLE words USING fts5 (a, b, c, d, tokenize = 'porter unicode61')"
        )
        self._database.execute("CREATE VIRTUAL TABLE found USING fts5vocab (words, instance)")
        self._known: dict[str, str] = {}

    def stem(self, words: Sequence[str]) -> list[str]:
        """The stem of each word; "" for what holds no word."""
        new = [word for word in dict.fromkeys(words) if word not in self._known]
        if new:
            found: dict[int, str] = {}
            for row, _, stem in self._cut([(word,) for word in new]):
                found.setdefault(row, stem)
            if len(self._known) > MAX_KNOWN:
                self._known = {}
            self._known |= {word: found.get(row, "") for row, word in enumerate(new)}
        # One that another thread has just let go of is simply cut again.
        return [self._known[word] if word in self._known else self.stem([word])[0] for word in words]

    def fields(self, rows: Sequence[Row], stems: Iterable[str]) -> list[list[set[str]]]:
        """Which of the stems are in each text (at most four to a row) of each row."""
        found: list[list[set[str]]] = [[set() for _ in row] for row in rows]
        for row, column, stem in self._cut(rows, stems):
            found[row][column].add(stem)
        return found

    def close(self) -> None:
        """Let go of the table."""
        self._database.close()

    def _cut(self, rows: Sequence[Row], stems: Iterable[str] | None = None) -> list[tuple[int, int, str]]:
        """Row, column and stem of every word, or of those with these stems."""
        values = [(number, *row, *[""] * (4 - len(row))) for number, row in enumerate(rows)]
        with self._lock:
            self._database.execute("BEGIN")
            try:
                self._database.executemany(
                    "INSERT INTO words (rowid, a, b, c, d) VALUES (?, ?, ?, ?, ?)", values
                )
                found = self._found(stems)
            finally:
                self._database.execute("ROLLBACK")
        return [(row, "abcd".index(column), stem) for row, column, stem in found]

    def _found(self, stems: Iterable[str] | None) -> list[tuple[int, str, str]]:
        query = "SELECT doc, col, term FROM found"
        if stems is None:
            return self._database.execute(f"{query} ORDER BY doc, offset").fetchall()
        return [row for stem in stems for row in self._database.execute(f"{query} WHERE term = ?", [stem])]
