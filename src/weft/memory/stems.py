"""Words as the full-text index cuts and stems them: SQLite itself does it, so both sides always agree."""

import re
import sqlite3
import threading
from collections.abc import Sequence, Set

from weft.memory.words import camel_parts

_WORD = re.compile(r"[^\W_]+")

_BY_SPACES = "".join(chr(code) if chr(code).isalnum() else " " for code in range(128))
"""Makes spaces of all in an ASCII text that is no part of a word: much faster than looking for words."""

MAX_KNOWN = 50_000
"""Stems that are remembered."""


class Stemmer:
    """A full-text table in memory, with the tokenizer of `memory_words`. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._database.execute("CREATE VIRTUAL TABLE words USING fts5 (word, tokenize = 'porter unicode61')")
        self._database.execute("CREATE VIRTUAL TABLE found USING fts5vocab (words, instance)")
        self._known: dict[str, str] = {}

    def stem(self, words: Sequence[str]) -> list[str]:
        """The stem of each word; "" for what holds no word."""
        new = [word for word in dict.fromkeys(words) if word not in self._known]
        if new:
            found: dict[int, str] = {}
            for row, stem in self._cut(new):
                found.setdefault(row, stem)
            if len(self._known) > MAX_KNOWN:
                self._known = {}
            self._known |= {word: found.get(row, "") for row, word in enumerate(new)}
        # One that another thread has just let go of is simply cut again.
        return [self._known[word] if word in self._known else self.stem([word])[0] for word in words]

    def held(self, texts: Sequence[str], stems: Set[str]) -> list[set[str]]:
        """Which of the stems are in each text.

        Only words that begin like one of the stems are cut: stemming changes the end of a word, of its first
        two letters at most `y` into `i`.
        """
        beginnings = {each for stem in stems for each in (stem[:2], stem[:2].replace("i", "y"))}
        words = [_begun_so(text, beginnings) for text in texts]
        self.stem([word for each in words for word in each])
        return [set(self.stem(each)) & stems for each in words]

    def close(self) -> None:
        """Let go of the table."""
        self._database.close()

    def _cut(self, words: Sequence[str]) -> list[tuple[int, str]]:
        """Row and stem of every word of each of these."""
        with self._lock:
            self._database.execute("BEGIN")
            try:
                self._database.executemany("INSERT INTO words (rowid, word) VALUES (?, ?)", enumerate(words))
                return self._database.execute("SELECT doc, term FROM found ORDER BY doc, offset").fetchall()
            finally:
                self._database.execute("ROLLBACK")


def _begun_so(text: str, beginnings: Set[str]) -> list[str]:
    """The different words of a text that may have a stem with one of these beginnings.

    Those with other letters than ASCII's all may: accents are taken away.
    """
    if text.isascii():
        whole = text.lower().translate(_BY_SPACES).split()
        words = {*whole, *camel_parts(text)}
        return [word for word in words if word[:2] in beginnings or word[:1] in beginnings]
    words = {*_WORD.findall(text.lower()), *camel_parts(text)}
    return [word for word in words if word[:2] in beginnings or word[:1] in beginnings or not word.isascii()]
