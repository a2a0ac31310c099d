"""The SQLite index: only what changed is read, and nothing stays behind."""

import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.memory.errors import NotIndexed, RootUnavailable
from weft.memory.files.chunks import PART_CHARACTERS
from weft.memory.index import prepare
from weft.memory.index.index import SqliteIndex
from weft.memory.index.update import IndexSettings
from weft.memory.protocol import IndexProgress, IndexReport

MERGE_SEGMENTS = 16


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SqliteIndex]:
    opened = SqliteIndex(tmp_path / "index.db")
    yield opened
    opened.close()


def found(index: SqliteIndex, words: str) -> list[str]:
    rows = index.connection.execute(
        """SELECT DISTINCT memory_files.path FROM memory_words
        JOIN memory_chunks ON memory_chunks.id = memory_words.rowid
        JOIN memory_files ON memory_files.id = file_id WHERE memory_words MATCH ? ORDER BY 1""",
        [words],
    )
    return [row[0] for row in rows]


def counts(report: IndexReport) -> tuple[int, int, int, int]:
    return report.files, report.added, report.changed, report.removed


def is_sound(index: SqliteIndex) -> bool:
    """Whether the words are those of the chunks, and the file is whole."""
    chunks = [row[0] for row in index.connection.execute("SELECT id FROM memory_chunks ORDER BY id")]
    sizes = [row[0] for row in index.connection.execute("SELECT id FROM memory_words_docsize ORDER BY id")]
    (whole,) = index.connection.execute("PRAGMA quick_check").fetchone()
    return chunks == sizes and whole == "ok"


def test_only_what_changed_is_read_again(index: SqliteIndex, root: Path) -> None:
    (root / "a.py").write_text("def alpha(): ...\n")
    (root / "b.py").write_text("def beta(): ...\n")
    assert counts(index.update([root])) == (2, 2, 0, 0)

    (root / "b.py").write_text("def gamma(): ...\n")
    assert counts(index.update([root])) == (2, 0, 1, 0)
    assert counts(index.update([root])) == (2, 0, 0, 0)
    assert (found(index, "gamma"), found(index, "beta")) == (["b.py"], [])
    assert is_sound(index)


def test_files_that_went_or_got_another_name_go(index: SqliteIndex, root: Path) -> None:
    for name in ("a.txt", "b.txt", "sub/c.txt"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(f"word {name[-5]}\n")
    index.update([root])

    (root / "a.txt").unlink()
    (root / "sub").rename(root / "other")

    assert counts(index.update([root])) == (2, 1, 0, 2)
    assert found(index, "word") == ["b.txt", "other/c.txt"]
    assert is_sound(index)


def test_a_change_that_keeps_size_and_time_is_seen(index: SqliteIndex, root: Path) -> None:
    file = root / "a.txt"
    file.write_text("before\n")
    index.update([root])
    known = file.stat()

    file.write_text("behind\n")
    os.utime(file, ns=(known.st_atime_ns, known.st_mtime_ns))
    index.update([root])

    assert found(index, "behind") == ["a.txt"]


def test_a_touched_file_is_not_counted_as_changed(index: SqliteIndex, root: Path) -> None:
    (root / "a.txt").write_text("same\n")
    index.update([root])
    os.utime(root / "a.txt", (1, 1))

    assert counts(index.update([root])) == (1, 0, 0, 0)
    facts = index.facts(str(root), "a.txt")
    assert facts is not None
    assert facts.changed_at == 1


def test_what_is_no_text_too_large_or_unreadable_is_counted(
    index: SqliteIndex, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "picture").write_bytes(b"\0\1")
    (root / "large").write_text("x" * 2_000_000)
    (root / "a.txt").write_text("fine\n")
    (root / os.fsdecode(b"\xff.txt")).write_text("no name\n")

    for _ in range(2):
        report = index.update([root])
        assert report.files == 1
        assert report.skipped == {"binary": 1, "too_large": 1, "unreadable": 1}


def test_a_limit_that_is_raised_takes_files_in(tmp_path: Path, root: Path) -> None:
    (root / "a.txt").write_text("word " * 100)
    for limit, files in ((100, 0), (1000, 1), (100, 0)):
        index = SqliteIndex(tmp_path / "index.db", IndexSettings(max_file_bytes=limit))
        assert index.update([root]).files == files
        assert len(found(index, "word")) == files
        index.close()


def test_text_of_a_binary_file_that_becomes_text_and_back(index: SqliteIndex, root: Path) -> None:
    (root / "a").write_bytes(b"\0 word")
    index.update([root])
    (root / "a").write_bytes(b"word")
    assert counts(index.update([root])) == (1, 1, 0, 0)
    (root / "a").write_bytes(b"\0 word")
    assert counts(index.update([root])) == (0, 0, 0, 1)
    assert is_sound(index)


def test_facts_say_language_title_and_symbols(index: SqliteIndex, root: Path) -> None:
    (root / "tool").write_text('#!/usr/bin/env python3\n"""Does it."""\n\n\nclass Tool:\n    pass\n')
    (root / "page.md").write_text("# Title\n\ntext\n\n## Part\n")
    index.update([root])

    tool, page = index.facts(str(root), "tool"), index.facts(str(root), "page.md")
    assert tool is not None
    assert page is not None
    assert (tool.language, tool.title, tool.lines) == ("python", "Does it.", 6)
    assert [(symbol.name, symbol.kind, symbol.line) for symbol in tool.symbols] == [("Tool", "class", 5)]
    assert (page.title, [symbol.name for symbol in page.symbols]) == ("Title", ["Title", "Part"])


def test_names_are_found_whole_and_by_their_parts(index: SqliteIndex, root: Path) -> None:
    (root / "a.js").write_text("function parseHTTPHeader() {}\nlet snake_case_name = other.dottedName;\n")
    index.update([root])

    for words in (
        "parsehttpheader",
        "header",
        "http",
        '"snake_case_name"',
        "snake",
        '"other.dottedName"',
        "dotted",
    ):
        assert found(index, words) == ["a.js"], words


def test_every_line_is_in_one_chunk(index: SqliteIndex, root: Path) -> None:
    text = "".join(f"def f{number}():\n    return {number}\n\n" for number in range(200))
    (root / "a.py").write_text(text)
    index.update([root])

    rows = index.connection.execute(
        "SELECT id, first_line, last_line FROM memory_chunks ORDER BY first_line"
    ).fetchall()
    assert [row[1] for row in rows[1:]] == [row[2] + 1 for row in rows[:-1]]
    assert all(row[2] - row[1] < 40 for row in rows)
    chunks = index.chunks([row[0] for row in rows]).values()
    assert "\n".join(chunk.text for chunk in chunks) == text.rstrip("\n") + "\n"


def test_a_very_long_line_is_cut_into_parts(index: SqliteIndex, root: Path) -> None:
    line = "".join(f"var name{number}={number};" for number in range(5000))
    (root / "a.js").write_text(f"first\n{line}\nlast\n")
    index.update([root])

    rows = index.connection.execute("SELECT id FROM memory_chunks ORDER BY first_line, start_character")
    chunks = list(index.chunks([row[0] for row in rows]).values())
    parts = [chunk for chunk in chunks if chunk.part is not None]
    assert [(chunk.first_line, chunk.last_line) for chunk in chunks] == [
        (1, 1),
        *[(2, 2)] * len(parts),
        (3, 3),
    ]
    assert all(len(chunk.text) <= PART_CHARACTERS and chunk.text.endswith((" ", ";")) for chunk in parts)
    assert "".join(chunk.text for chunk in parts) == line
    assert parts[1].part == (len(parts[0].text), len(parts[0].text + parts[1].text), len(line))
    assert is_sound(index)


def test_no_word_of_a_long_line_stays_behind(index: SqliteIndex, root: Path) -> None:
    (root / "a.js").write_text("".join(f"var nameOf{number}={number};" for number in range(5000)))
    index.update([root])
    (root / "a.js").write_text("other\n")
    index.update([root])

    connection = sqlite3.connect(index.path)
    connection.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, memory_words, row)")
    assert [row[0] for row in connection.execute("SELECT term FROM temp.terms")] == ["a", "js", "other"]
    connection.close()
    assert is_sound(index)


def test_a_root_can_be_dropped_and_the_others_stay(index: SqliteIndex, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text("word\n")
    index.update([tmp_path / "one", tmp_path / "two"])

    index.drop([tmp_path / "one"])
    assert found(index, "word") == ["two.txt"]
    with pytest.raises(NotIndexed):
        index.drop([tmp_path / "one"])
    index.drop()
    assert index.status()["roots"] == []
    assert is_sound(index)


def test_a_root_that_is_no_folder_is_refused(index: SqliteIndex, tmp_path: Path) -> None:
    with pytest.raises(RootUnavailable):
        index.update([tmp_path / "nowhere"])


def test_progress_is_told_and_ends_with_everything(index: SqliteIndex, root: Path) -> None:
    for number in range(5):
        (root / f"{number}.txt").write_text("text\n")
    told: list[IndexProgress] = []

    index.update([root], told.append)

    assert told[-1] == IndexProgress(5, 5, 0, 5)


def test_many_files_are_prepared_by_other_processes_with_the_same_result(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        (root / f"m{number}.py").write_text(f"class Word{number}:\n    pass\n" * 10)
    here = SqliteIndex(tmp_path / "here.db")
    here.update([root])
    monkeypatch.setattr("weft.memory.index.prepare.WORTH_BYTES", 0)
    there = SqliteIndex(tmp_path / "there.db")
    there.update([root])

    query = "SELECT path, size, hash, lines, language, symbols FROM memory_files ORDER BY path"
    assert here.connection.execute(query).fetchall() == there.connection.execute(query).fetchall()
    assert found(there, "word77") == ["m77.py"]
    here.close()
    there.close()


def test_what_many_transactions_write_is_merged(
    index: SqliteIndex, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "FILES_A_BATCH", 1)
    for number in range(3 * MERGE_SEGMENTS):
        (root / f"{number}.txt").write_text(f"word number{number}\n")
    index.update([root])

    (segments,) = index.connection.execute("SELECT count(DISTINCT segid) FROM memory_words_idx").fetchone()
    assert segments <= MERGE_SEGMENTS + 2
    assert len(found(index, "word")) == 3 * MERGE_SEGMENTS
    assert is_sound(index)


def test_readers_and_a_store_are_not_kept_waiting(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another connection reads in the middle of a write, and sees what was committed."""
    monkeypatch.setattr(prepare, "FILES_A_BATCH", 1)
    (root / "a.txt").write_text("word\n")
    index = SqliteIndex(tmp_path / "index.db")
    index.update([root])
    seen: list[int] = []

    def look(progress: IndexProgress) -> None:
        with sqlite3.connect(tmp_path / "index.db", timeout=0) as reader:
            seen.append(reader.execute("SELECT count(*) FROM memory_files").fetchone()[0])
        reader.close()

    (root / "b.txt").write_text("word\n")
    index.update([root], look)
    assert seen[-1] == 2
    index.close()


def test_several_threads_read_while_one_writes(index: SqliteIndex, root: Path) -> None:
    (root / "a.txt").write_text("word\n")
    index.update([root])
    results: list[list[str]] = []
    threads = [threading.Thread(target=lambda: results.append(found(index, "word"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(20):
        (root / f"{number}.md").write_text("other\n")
    index.update([root])
    for thread in threads:
        thread.join()

    assert results == [["a.txt"]] * 4


def test_threads_that_have_ended_leave_no_connection_behind(index: SqliteIndex, root: Path) -> None:
    index.update([root])
    for _ in range(5):
        thread = threading.Thread(target=index.status)
        thread.start()
        thread.join()

    assert len(index._connections) <= 2


def test_paths_are_updated_alone_and_rules_with_everything(index: SqliteIndex, root: Path) -> None:
    (root / "sub").mkdir()
    for name in ("a.txt", "sub/b.txt", "c.log"):
        (root / name).write_text("word\n")
    index.update([root])
    (root / "a.txt").write_text("news\n")
    (root / "sub/b.txt").unlink()
    (root / "d.txt").write_text("unseen\n")

    assert counts(index.update_paths(root, ["a.txt", "sub"])) == (2, 0, 1, 1)
    assert found(index, "unseen") == []
    (root / ".gitignore").write_text("*.log\n")
    index.update_paths(root, [".gitignore"])
    assert found(index, "word OR unseen") == ["d.txt"]
