"""Who may read a store: it holds prompts, results and what people answered."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.command_line import weft
from weft.memory.index.index import SqliteIndex
from weft.store.sqlite.store import SqliteStore


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder that everybody may enter."""
    tmp_path.chmod(0o755)
    return tmp_path


def old_store(file: Path) -> None:
    """Create a store as earlier versions did."""
    assert weft("flow", "submit", "-", db=str(file), stdin='{"name": "x"}').code == 0
    file.chmod(0o644)
    file.parent.chmod(0o755)


async def test_a_new_store_and_what_is_beside_it_are_for_its_user_alone(project: Path) -> None:
    file = project / ".weft" / "weft.db"
    store = await SqliteStore.open(file)
    try:
        modes = {path.name: mode(path) for path in file.parent.iterdir()}
    finally:
        await store.close()

    assert modes == {"weft.db": 0o600, "weft.db-wal": 0o600, "weft.db-shm": 0o600}
    assert mode(file.parent) == 0o700
    assert mode(project) == 0o755


def test_a_new_store_that_a_link_leads_to_is_for_its_user_alone(project: Path) -> None:
    file = project / "weft.db"
    file.symlink_to("elsewhere.db")

    assert weft("flow", "submit", "-", db=str(file), stdin='{"name": "x"}').code == 0
    assert mode(project / "elsewhere.db") == 0o600


def test_a_new_index_is_for_its_user_alone(project: Path) -> None:
    with closing(SqliteIndex(project / ".weft" / "index.db")):
        assert {mode(path) for path in (project / ".weft").iterdir()} == {0o600}


def test_a_store_of_an_earlier_version_is_closed_when_it_is_opened(project: Path) -> None:
    file = project / ".weft" / "weft.db"
    old_store(file)
    with closing(sqlite3.connect(file)) as other:
        other.execute("SELECT count(*) FROM tasks").fetchone()
        log = file.with_name("weft.db-wal")
        log.chmod(0o644)
        assert weft("tasks", "list", db=str(file)).code == 0
        assert (mode(file), mode(log), mode(file.parent)) == (0o600, 0o600, 0o700)


def test_only_folders_of_that_name_are_closed(project: Path) -> None:
    file = project / "weft.db"
    old_store(file)

    assert weft("tasks", "list", db=str(file)).code == 0
    assert (mode(file), mode(project)) == (0o600, 0o755)


def test_a_mode_that_somebody_chose_stays_and_is_warned_of(project: Path) -> None:
    file = project / "weft.db"
    old_store(file)
    file.chmod(0o664)

    ran = weft("doctor", db=str(file), cwd=project)

    assert mode(file) == 0o664
    assert ran.code == 1
    assert f"other users can read it (mode 0664): chmod 600 {file}" in ran.out


def test_a_folder_in_which_everybody_can_replace_the_store_is_warned_of(project: Path) -> None:
    file = project / "open" / "weft.db"
    old_store(file)
    file.parent.chmod(0o777)

    assert f"other users can replace it (mode 0777 of its folder): chmod 700 {file.parent}" in (
        weft("doctor", db=str(file), cwd=project).out
    )
    file.parent.chmod(0o1777)
    assert weft("doctor", db=str(file), cwd=project).code == 0


def test_a_store_may_be_shared_with_a_group(project: Path) -> None:
    (project / "weft.toml").write_text("[store]\nshared = true\n")
    file = project / "shared" / "weft.db"

    assert weft("flow", "submit", "-", db=str(file), stdin='{"name": "x"}', cwd=project).code == 0
    assert (mode(file), mode(file.parent) & 0o777) == (0o660, 0o770)
    assert weft("doctor", db=str(file), cwd=project).code == 0
    (project / "weft.toml").unlink()
    assert "its group can read it (mode 0660)" in weft("doctor", db=str(file), cwd=project).out


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_store_of_another_user_is_left_as_it_is(project: Path) -> None:
    file = project / "weft.db"
    old_store(file)
    os.chown(file, 12345, 12345)

    assert "other users can read it" in weft("doctor", db=str(file), cwd=project).out
    assert mode(file) == 0o644
