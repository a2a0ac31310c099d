"""Texts of an index that cannot be unpacked: the others are found, and the next update reads them again."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.memory.index.test_index import counts, found
from weft.memory.index.database import connect
from weft.memory.index.index import SqliteIndex
from weft.memory.protocol import Query, QueryPart
from weft.memory.search.matcher import LexicalMatcher


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.py").write_text(f"def {name}{name}(): common\n")
    return folder


@pytest.fixture
def index(tmp_path: Path, root: Path) -> Iterator[SqliteIndex]:
    """Yield an index in which the text of the last file is damaged."""
    opened = SqliteIndex(tmp_path / "index.db")
    opened.update([root])
    with closing(connect(opened.path)) as connection:
        connection.execute(
            """UPDATE memory_texts SET text = x'00112233'
            WHERE file_id = (SELECT id FROM memory_files WHERE path = 'c.py')"""
        )
    yield opened
    opened.close()


def matched(index: SqliteIndex) -> list[str]:
    with closing(LexicalMatcher(index)) as matcher:
        return sorted(match.chunk.path for match in matcher.match(Query(parts=(QueryPart("common"),))))


def test_the_other_files_are_found_and_the_next_update_reads_the_damaged_one_again(
    index: SqliteIndex, root: Path
) -> None:
    assert matched(index) == ["a.py", "b.py"]

    assert counts(index.update([root])) == (3, 0, 1, 0)

    assert matched(index) == ["a.py", "b.py", "c.py"]


def test_a_damaged_file_that_changes_is_taken_in(index: SqliteIndex, root: Path) -> None:
    (root / "c.py").write_text("def other(): common\n")
    (root / "b.py").write_text("def another(): common\n")

    assert counts(index.update([root])) == (3, 0, 2, 0)

    assert matched(index) == ["a.py", "b.py", "c.py"]
    assert found(index, "other") == ["c.py"]
    assert found(index, "cc") == []  # the words that stay behind are nobody's


def test_a_damaged_file_can_go_and_its_root_be_dropped(index: SqliteIndex, root: Path) -> None:
    (root / "c.py").unlink()
    (root / "d.py").write_text("def dd(): common\n")
    assert counts(index.update([root])) == (3, 1, 0, 1)
    assert matched(index) == ["a.py", "b.py", "d.py"]

    index.drop([root])

    assert matched(index) == []
