"""An index of another version: commands that only read leave it as it is."""

from contextlib import closing
from pathlib import Path

import pytest

from weft.cli.index import drop, status
from weft.cli.invoke import run_command
from weft.memory.index import database
from weft.memory.index.database import connect
from weft.memory.index.index import SqliteIndex
from weft.store.sqlite.connection import APPLICATION_ID


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of an index that an earlier version made of one file."""
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "a.txt").write_text("first\n")
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as earlier:
        earlier.setattr(database, "SCHEMA_VERSION", database.SCHEMA_VERSION - 1)
        with closing(SqliteIndex(tmp_path / "store.db", application_id=APPLICATION_ID)) as index:
            index.update([tmp_path / "root"])
    return tmp_path / "store.db"


def files_of(path: Path) -> int:
    with closing(connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM memory_files").fetchone()[0])


def test_status_and_the_drop_of_a_folder_say_so_and_leave_it(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, arguments in ((status, []), (drop, ["root"])):
        assert run_command(command, [*arguments, "--db", str(old)]) == 2
        said = capsys.readouterr()
        assert said.err.startswith("error: index-outdated: ")
        assert "run `weft index` to rebuild it" in said.err
        assert files_of(old) == 1


def test_it_can_be_dropped_as_a_whole(old: Path) -> None:
    assert run_command(drop, ["--db", str(old)]) == 0
    assert files_of(old) == 0
