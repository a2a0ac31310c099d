"""What files are made ready for the index, and into how many chunks."""

import os
from pathlib import Path

import pytest

from tests.unit.memory.index.test_index import counts, found, index, is_sound, root
from weft.memory.index import prepare as prepare_module
from weft.memory.index.index import SqliteIndex
from weft.memory.index.prepare import Prepared, prepare

__all__ = ["index", "root"]


def test_a_touched_file_is_read_but_not_prepared_again(
    index: SqliteIndex, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.py", "b.py"):
        (root / name).write_text(f"def {name[0]}(): ...\n")
    index.update([root])
    prepared: list[str] = []

    def noting(path: str, content: bytes) -> Prepared:
        prepared.append(path)
        return prepare(path, content)

    monkeypatch.setattr(prepare_module, "prepare", noting)
    os.utime(root / "a.py", (1, 1))
    (root / "b.py").write_text("def other(): ...\n")

    assert counts(index.update([root])) == (2, 0, 1, 0)
    assert prepared == ["b.py"]


@pytest.mark.parametrize(
    ("name", "text", "most"),
    [
        ("blank.txt", "\n" * 900_000, 1),
        ("ruled.rst", "=\n" * 400_000, 1),
        ("short.md", "x\n---\n" * 150_000, 2_000),
    ],
)
def test_very_short_lines_make_few_chunks(
    index: SqliteIndex, root: Path, name: str, text: str, most: int
) -> None:
    (root / name).write_text(text + "needle\n")
    index.update([root])

    (count,) = index.connection.execute("SELECT count(*) FROM memory_chunks").fetchone()
    assert 1 < count <= most + 1
    assert found(index, "needle") == [name]
    (root / name).unlink()
    index.update([root])
    assert is_sound(index)
