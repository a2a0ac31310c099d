"""Inserts and deletes the rows of a file in the tables of the index."""

import sqlite3
from collections.abc import Sequence

from weft.memory.files.walk import Found
from weft.memory.index.database import unpack
from weft.memory.index.prepare import Prepared, text_at, text_lines
from weft.memory.search.query import fields_of, path_words

_INSERT_WORDS = """INSERT INTO memory_words (rowid, path, symbols, headings, content, parts)
VALUES (?, ?, ?, ?, ?, ?)"""
_DELETE_WORDS = """INSERT INTO memory_words (memory_words, rowid, path, symbols, headings, content, parts)
VALUES ('delete', ?, ?, ?, ?, ?, ?)"""


def insert_file(
    connection: sqlite3.Connection, root_id: int, found: Found, prepared: Prepared, *, is_settled: bool
) -> None:
    """Insert a file that is not in the index; for `is_settled` see the column of `memory_files`."""
    file_id = connection.execute(
        """INSERT INTO memory_files (root_id, path, size, mtime_ns, ctime_ns, is_settled, skipped, hash,
            lines, language, title, symbols) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        [
            root_id,
            found.path,
            found.size,
            found.mtime_ns,
            found.ctime_ns,
            is_settled,
            prepared.skipped,
            prepared.hash,
            prepared.lines,
            prepared.language,
            prepared.title,
            prepared.symbols,
        ],
    ).lastrowid
    if prepared.skipped:
        return
    connection.execute("INSERT INTO memory_texts VALUES (?, ?)", [file_id, prepared.text])
    numbered = list(enumerate(prepared.chunks, _last_chunk_id(connection) + 1))
    connection.executemany(
        "INSERT INTO memory_chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                number,
                file_id,
                chunk.first_line,
                chunk.last_line,
                chunk.start_character,
                chunk.end_character,
                chunk.symbols,
                chunk.headings,
            )
            for number, chunk in numbered
        ],
    )
    connection.executemany(_INSERT_WORDS, [(number, *chunk.fields) for number, chunk in numbered])


def _last_chunk_id(connection: sqlite3.Connection) -> int:
    """Return the largest id in use: of a chunk, or of words left over from a damaged file."""
    statement = """SELECT max(coalesce((SELECT max(id) FROM memory_chunks), 0),
        coalesce((SELECT max(id) FROM memory_words_docsize), 0))"""
    return int(connection.execute(statement).fetchone()[0])


def read_again(connection: sqlite3.Connection, file_ids: Sequence[int]) -> None:
    """Make the next update index these files again, even if they have not changed."""
    connection.executemany(
        "UPDATE memory_files SET is_settled = 0, hash = NULL WHERE id = ?", [[number] for number in file_ids]
    )


def delete_file(connection: sqlite3.Connection, file_id: int) -> None:
    """Delete a file and its words, which are recomputed from the stored text.

    If the text is damaged, its words stay in the index, but are not found, as no chunk has their id.
    """
    path = connection.execute("SELECT path FROM memory_files WHERE id = ?", [file_id]).fetchone()[0]
    text = connection.execute("SELECT text FROM memory_texts WHERE file_id = ?", [file_id]).fetchone()
    content = None if text is None else unpack(text[0])
    if content is not None:
        lines = text_lines(content.decode("utf-8", "replace"))
        rows = connection.execute(
            """SELECT id, symbols, headings, first_line, last_line, start_character, end_character
            FROM memory_chunks WHERE file_id = ?""",
            [file_id],
        ).fetchall()
        words = path_words(path)
        for chunk_id, symbols, headings, first, last, start, end in rows:
            chunk = text_at(lines, (first, last, start, end)).encode()
            connection.execute(_DELETE_WORDS, [chunk_id, *fields_of(words, symbols, headings, chunk)])
    connection.execute("DELETE FROM memory_chunks WHERE file_id = ?", [file_id])
    connection.execute("DELETE FROM memory_texts WHERE file_id = ?", [file_id])
    connection.execute("DELETE FROM memory_files WHERE id = ?", [file_id])
