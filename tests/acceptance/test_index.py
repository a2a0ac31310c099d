"""`weft index` as a person uses it."""

from pathlib import Path

import pytest

from tests.command_line import weft


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "prices.py").write_text('"""Prices."""\n\n\ndef rounded_price(): ...\n')
    (tmp_path / "notes.md").write_text("# Notes\n")
    (tmp_path / ".gitignore").write_text(".weft/\n")
    return tmp_path


def test_the_first_run_takes_everything_in_and_the_second_says_what_changed(project: Path) -> None:
    db = str(project / ".weft" / "weft.db")
    first = weft("index", cwd=project, db=db)
    assert first.out.startswith("3 files indexed: 3 new\n"), first.err
    assert " bytes of text; the index takes " in first.out
    assert "of the text" not in first.out  # empty tables take more than these few lines
    assert weft("index", ".", cwd=project, db=db).out.startswith("3 files indexed: no changes\n")
    (project / "notes.md").write_text("# Other notes\n")
    (project / "src" / "prices.py").unlink()

    changed = weft("index", ".", "--json", cwd=project, db=db).json

    assert (changed["files"], changed["added"], changed["changed"], changed["removed"]) == (2, 0, 1, 1)


def test_settings_say_what_is_indexed(project: Path) -> None:
    (project / "weft.toml").write_text(
        '[memory]\nroots = ["src"]\nignore = ["*.pyc"]\nmax_file_bytes = 1000\n'
    )
    (project / "src" / "a.pyc").write_text("x")
    (project / "src" / "large.txt").write_text("x" * 2000)

    report = weft("index", "--json", cwd=project, db=str(project / "store.db")).json

    assert (report["files"], report["skipped"]) == (1, {"too_large": 1})


def test_status_and_drop(project: Path) -> None:
    db = str(project / "store.db")
    assert weft("index", "status", cwd=project, db=db).out == "no files are indexed; run: weft index\n"
    weft("index", "src", cwd=project, db=db)

    status = weft("index", "status", "--json", cwd=project, db=db).json
    assert [root["files"] for root in status["roots"]] == [1]
    shown = weft("index", "status", cwd=project, db=db).out
    assert str(project / "src") in shown
    assert shown.count("41 bytes") == 2, shown  # of the folder, and of all
    assert weft("index", "drop", "notes", cwd=project, db=db).code == 3
    assert weft("index", "drop", "--json", cwd=project, db=db).json == {"dropped": 1}
    assert weft("index", "status", cwd=project, db=db).out == "no files are indexed; run: weft index\n"


def test_an_index_is_found_from_a_folder_below_without_a_store(project: Path) -> None:
    weft("index", cwd=project, db=None)

    assert (project / ".weft" / "index.db").exists()
    assert not (project / ".weft" / "weft.db").exists()
    assert len(weft("index", "status", "--json", cwd=project / "src", db=None).json["roots"]) == 1


def test_a_folder_that_is_not_there_is_refused(project: Path) -> None:
    ran = weft("index", "nowhere", cwd=project, db=str(project / "store.db"))

    assert (ran.code, ran.err) == (2, "error: root-unavailable: nowhere: there is no such folder\n")
    assert not (project / "store.db").exists()
