"""Lexical matcher: finds chunks by the words of a query."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from weft.memory.index.database import clear_errors, transaction
from weft.memory.index.index import SqliteIndex
from weft.memory.protocol import Chunk, Match, Query
from weft.memory.search.lookup import Lookup
from weft.memory.search.query import QueryWords, Stemmer, split_query
from weft.memory.search.ranking import FoundFile, Ranked, Tally, name_words, rank

MAX_FILES = 100
"""Maximum number of files ranked with their metadata: those with the largest sums of word values."""

COMMON_FILES = 30
"""Number of files, best by their rarer words, in which common words are scored."""

MAX_NAMED = 5
"""The end of a path that matches more files than this (`__init__.py`) does not name a file."""

MAX_EXPLAINED = 4_000
"""How many characters of a chunk are searched first for the words that matched; minified files need more."""

FIELDS = ("path", "symbols", "headings", "content")


class LexicalMatcher:
    """Matches by words: BM25 scores of chunks, summed per file. Threads may share it."""

    def __init__(self, index: SqliteIndex) -> None:
        self._index = index
        self._stemmer = Stemmer()

    def match(self, query: Query) -> list[Match]:
        """Return the best chunks, best first. The result for the same query and index is always the same."""
        sought = split_query(query.parts, self._stemmer)
        with clear_errors(self._index.path), transaction(self._index.connection, "DEFERRED"):
            ranked = self._rank(query, sought)[: max(0, query.limit)]
            return self._matches(ranked, sought)

    def close(self) -> None:
        """Close the stemmer; the index belongs to the caller."""
        self._stemmer.close()

    def _rank(self, query: Query, sought: QueryWords) -> list[Ranked]:
        lookup = Lookup(self._index.connection, query.strategy, query.roots)
        counted = lookup.count(sought.words)
        words = [lookup.hits(word, count) for count, word in counted.everywhere]
        pairs = lookup.pairs(sought.pairs, words)
        tally = Tally(words, pairs, counted.value)
        if counted.common:
            tally.add(lookup.words_within(counted.common, tally.best_files(COMMON_FILES)))
        named = _find_named_files(self._index.connection, sought.paths, lookup.root_ids)
        files = self._files(dict.fromkeys((*named, *tally.best_files(MAX_FILES))), named, sought)
        wordless = [file.id for file in files if file.id not in tally.chunks]
        first_chunks = _first_chunks(self._index.connection, wordless)
        known = [file for file in files if file.id in tally.chunks or file.id in first_chunks]
        return rank(known, tally, sought.stems, first_chunks)

    def _files(self, ids: Iterable[int], named: dict[int, int], sought: QueryWords) -> list[FoundFile]:
        """Return the files; those whose name consists of the words of the query, if few, are named too."""
        rows = _rows(
            self._index.connection, "SELECT id, path, lines FROM memory_files WHERE id IN ({})", list(ids)
        )
        names = [name_words(path) for _, path, _ in rows]
        self._stemmer.stem([word for words in names for word in words])  # all at once, for its cache
        stems = [frozenset(self._stemmer.stem(words)) for words in names]
        wanted = sought.stems
        is_distinctive = wanted and stems.count(wanted) <= MAX_NAMED
        texts = {word.text for word in sought.words}
        return [
            FoundFile(
                number,
                path,
                lines,
                each,
                # For a name with the stems of the query: 2 for its exact words, else 1.
                named.get(number) or (1 + (texts == set(words)) if is_distinctive and each == wanted else 0),
            )
            for (number, path, lines), words, each in zip(rows, names, stems, strict=True)
        ]

    def _matches(self, ranked: Sequence[Ranked], sought: QueryWords) -> list[Match]:
        ids = [each.chunk_id for each in ranked]
        scores = {each.chunk_id: each.score for each in ranked}
        headings = dict(
            _rows(self._index.connection, "SELECT id, headings FROM memory_chunks WHERE id IN ({})", ids)
        )
        chunks = self._index.chunks(ids)
        texts = [
            text[:MAX_EXPLAINED]
            for number, chunk in chunks.items()
            for text in (chunk.path, " ".join(chunk.symbols), headings[number], chunk.text)
        ]
        found = self._stemmer.find_stems(texts, sought.stems)
        return [
            Match(
                chunk=chunk,
                score=scores[number],
                why=_why(found[4 * row : 4 * row + 4], sought) or self._why_in_whole_text(chunk, sought),
            )
            for row, (number, chunk) in enumerate(chunks.items())
        ]

    def _why_in_whole_text(self, chunk: Chunk, sought: QueryWords) -> dict[str, tuple[str, ...]]:
        if len(chunk.text) <= MAX_EXPLAINED:
            return {}
        return _why([set(), set(), set(), *self._stemmer.find_stems([chunk.text], sought.stems)], sought)


def _why(fields: Sequence[set[str]], sought: QueryWords) -> dict[str, tuple[str, ...]]:
    """Return the words of the query found in each field, heaviest first."""
    found = {
        name: tuple(word.text for word in sought.words if word.stem in stems)
        for name, stems in zip(FIELDS, fields, strict=True)
    }
    return {name: words for name, words in found.items() if words}


def _find_named_files(
    connection: sqlite3.Connection, paths: Sequence[str], root_ids: list[int] | None
) -> dict[int, int]:
    """Return `FoundFile.naming` by file id: 2 for one of these paths, 1 for a path that ends with one."""
    if not paths:
        return {}
    ends = " OR ".join(
        ["substr('/' || path, ?) = ?"] * len(paths)
    )  # one statement, because it scans all paths
    values = [value for path in paths for value in (-len(path) - 1, "/" + path)]
    rows = connection.execute(
        f"SELECT id, path, root_id FROM memory_files WHERE ({ends}) AND skipped IS NULL",  # noqa: S608 - question marks
        values,
    ).fetchall()
    known = [(number, path) for number, path, root in rows if root_ids is None or root in root_ids]
    found: dict[int, int] = {}
    for path in paths:
        ending = [number for number, each in known if f"/{each}".endswith(f"/{path}")]
        if len(ending) <= MAX_NAMED:
            found |= dict.fromkeys(ending, 1)
    return found | {number: 2 for number, path in known if path in paths}


def _first_chunks(connection: sqlite3.Connection, files: Sequence[int]) -> dict[int, int]:
    rows = _rows(
        connection,
        """SELECT file_id, id FROM memory_chunks
        WHERE first_line = 1 AND start_character = 0 AND file_id IN ({})""",
        files,
    )
    return dict(rows)


def _rows(connection: sqlite3.Connection, statement: str, numbers: Sequence[int]) -> list[Any]:
    # The numbers are row ids, so formatting them into the statement is safe; there are some hundreds at most.
    return connection.execute(statement.format(", ".join(map(str, numbers)))).fetchall()
