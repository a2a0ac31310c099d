"""Files prepared by several processes: none is lost, whatever one of them does to its process."""

from pathlib import Path

import pytest

from weft.memory.files.walk import Found
from weft.memory.index import prepare as prepare_module
from weft.memory.index.index import SqliteIndex
from weft.memory.index.prepare import Prepared, prepare, prepare_files
from weft.process.worker import ChildProcess

ENDED_BY_ONE = """
import os
from weft.memory.index import prepare as prepare_worker
prepare = prepare_worker.prepare_file
def ended(reader, path, max_bytes, known_hash):
    return os._exit(9) if path == "3.txt" else prepare(reader, path, max_bytes)
prepare_worker.prepare_file = ended
prepare_worker.main()
"""
FILES = 7


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(prepare_module, "WORTH_BYTES", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    folder = tmp_path / "root"
    folder.mkdir()
    for number in range(FILES):
        (folder / f"{number}.txt").write_text(f"word {number}\n")
    return folder


def prepared(root: Path) -> dict[str, bool]:
    """Which files came back, and whether each was prepared."""
    files = [Found(f"{number}.txt", 7, 0, 0) for number in range(FILES)]
    return {
        done.found.path: done.prepared is not None
        for batch in prepare_files(root, files, 1000)
        for done in batch
    }


def but_one() -> dict[str, bool]:
    return {f"{number}.txt": number != 3 for number in range(FILES)}


def test_a_file_that_ends_its_process_is_left_out_alone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare_module, "_START", ENDED_BY_ONE)

    assert prepared(root) == but_one()


def test_without_processes_that_answer_files_are_prepared_here(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare_module, "_START", "import os; os.read(0, 1)")

    assert all(prepared(root).values())


def test_a_file_that_cannot_be_prepared_is_counted(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(path: str, content: bytes) -> Prepared:
        if path == "3.txt":
            raise AssertionError("ours")
        return prepare(path, content)

    monkeypatch.setattr(prepare_module, "prepare", failing)
    monkeypatch.setattr(ChildProcess, "start", lambda child: False)
    index = SqliteIndex(tmp_path / "index.db")
    report = index.update([root])
    index.close()

    assert (report.files, report.skipped) == (FILES - 1, {"unreadable": 1})


def test_what_goes_wrong_in_a_thread_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*arguments: object) -> None:
        raise AssertionError("ours")

    monkeypatch.setattr(prepare_module, "prepare_batch", failing)
    monkeypatch.setattr(ChildProcess, "start", lambda child: False)

    with pytest.raises(AssertionError, match="ours"):
        prepared(root)
