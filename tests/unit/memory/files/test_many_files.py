"""An index of very many files answers."""

from pathlib import Path

import pytest

from weft.memory.index.index import SqliteIndex
from weft.memory.protocol import Query, QueryPart
from weft.memory.search.matcher import LexicalMatcher

FILES = 100_000


@pytest.mark.slow
def test_a_hundred_thousand_files_are_indexed_and_answer(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for number in range(FILES):
        folder = root / f"part{number // 1000}"
        if number % 1000 == 0:
            folder.mkdir(parents=True)
        (folder / f"module_{number}.py").write_text(
            f'"""Handles case {number}."""\n\n\ndef handle_case_{number}(value):\n    return {number}\n'
        )
    index = SqliteIndex(tmp_path / "index.db")

    assert index.update([root]).files == FILES
    assert index.update([root]).added == 0
    matches = LexicalMatcher(index).match(Query(parts=(QueryPart("handle_case_77777"),), limit=5))

    assert matches[0].chunk.path == "part77/module_77777.py"
    index.close()
