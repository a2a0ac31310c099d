"""Who answers: a search for keywords, plain full text, and weft's own ways."""

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

from weft.memory.index.index import SqliteIndex
from weft.memory.protocol import Matcher, Query, QueryPart
from weft.memory.search.matcher import LexicalMatcher
from weft.memory.search.query import STOP_WORDS

Ranker = Callable[[str], list[str]]
"""A question's files, the best first."""

FILES = 20
MATCHES = 60
"""Of weft's: an answer has up to three chunks of a file."""

_WORD = re.compile(r"\w+")


def texts_of(folder: Path) -> dict[str, str]:
    """Return the text files below a folder, by path."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= 1_000_000:
            try:
                found[path.relative_to(folder).as_posix()] = path.read_text("utf-8")
            except UnicodeDecodeError:
                continue
    return found


def keywords(texts: dict[str, str]) -> Ranker:
    """As one would with grep: files by how many of the question's words they hold."""
    lower = {path: text.lower() for path, text in texts.items()}

    def rank(question: str) -> list[str]:
        words = {word for word in _WORD.findall(question.lower()) if word not in STOP_WORDS}
        counts = {path: sum(word in text for word in words) for path, text in lower.items()}
        return sorted((path for path in counts if counts[path]), key=lambda path: (-counts[path], path))[
            :FILES
        ]

    return rank


def plain_full_text(texts: dict[str, str]) -> Ranker:
    """FTS5 over whole files, any of the question's words, ranked by its own BM25."""
    database = sqlite3.connect(":memory:")
    database.execute(
        "CREATE VIRTUAL TABLE t USING fts5 (path UNINDEXED, content, tokenize = 'porter unicode61')"
    )
    database.executemany("INSERT INTO t VALUES (?, ?)", texts.items())

    def rank(question: str) -> list[str]:
        words = _WORD.findall(question)
        if not words:
            return []
        any_word = " OR ".join(f'"{word}"' for word in words)
        query = "SELECT path FROM t WHERE t MATCH ? ORDER BY bm25(t) LIMIT ?"
        return [path for (path,) in database.execute(query, [any_word, FILES])]

    return rank


def by_matcher(matcher: Matcher) -> Ranker:
    """Return a ranker of files that uses weft's matcher."""

    def rank(question: str) -> list[str]:
        matches = matcher.match(Query(parts=(QueryPart(question),), limit=MATCHES))
        return list(dict.fromkeys(match.chunk.path for match in matches))[:FILES]

    return rank


def lexical(index: SqliteIndex) -> Ranker:
    """weft without embeddings."""
    return by_matcher(LexicalMatcher(index))
