"""What may not be read stays in the index, and is counted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.memory.index.test_index import counts, found
from tests.unprivileged import held_to_rights
from weft.app.memory import chosen_roots
from weft.memory.errors import RootUnavailable
from weft.memory.index.index import SqliteIndex


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "root"
    (folder / "closed").mkdir(parents=True)
    (folder / "closed" / "a.txt").write_text("word\n")
    (folder / "b.txt").write_text("word\n")
    yield folder
    folder.chmod(0o700)
    for closed in folder.glob("closed"):
        closed.chmod(0o700)


@pytest.fixture
def index(tmp_path: Path, root: Path) -> Iterator[SqliteIndex]:
    opened = SqliteIndex(tmp_path / "index.db")
    opened.update([root])
    yield opened
    opened.close()


@pytest.mark.parametrize("rights", [0o000, 0o400, 0o100])
def test_files_of_a_folder_that_cannot_be_read_stay(index: SqliteIndex, root: Path, rights: int) -> None:
    (root / "closed").chmod(rights)
    with held_to_rights():
        swept = index.update([root])
        taken = index.update_paths(root, ["closed", "closed/a.txt"])

    assert found(index, "word") == ["b.txt", "closed/a.txt"]
    for report in (swept, taken):
        assert (counts(report), report.skipped) == ((2, 0, 0, 0), {"unreadable": 1})


def test_a_file_that_cannot_be_read_stays_when_it_alone_is_looked_at(index: SqliteIndex, root: Path) -> None:
    (root / "b.txt").chmod(0)
    with held_to_rights():
        report = index.update_paths(root, ["b.txt"])

    assert (counts(report), report.skipped) == ((2, 0, 0, 0), {"unreadable": 1})


def test_a_folder_that_went_takes_its_files_with_it(index: SqliteIndex, root: Path) -> None:
    (root / "closed" / "a.txt").unlink()
    (root / "closed").rmdir()

    assert counts(index.update_paths(root, ["closed/a.txt", "closed"])) == (1, 0, 0, 1)


def test_a_root_that_cannot_be_read_is_said_and_keeps_its_files(index: SqliteIndex, root: Path) -> None:
    root.chmod(0)
    with held_to_rights(), pytest.raises(RootUnavailable, match="cannot be read"):
        index.update([root])

    assert found(index, "word") == ["b.txt", "closed/a.txt"]


def test_a_root_in_a_folder_that_cannot_be_entered_is_said(root: Path) -> None:
    root.chmod(0)
    with held_to_rights(), pytest.raises(RootUnavailable, match="Permission denied"):
        chosen_roots([str(root / "closed")])
