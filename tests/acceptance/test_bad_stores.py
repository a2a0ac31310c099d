"""A store that cannot be used: one clear line with its code, and nothing half written."""

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import weft

EXAMPLE = Path(__file__).parents[2] / "examples" / "release.json"


def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "weft.db"
    file.write_text("my notes " * 1000)

    ran = weft("tasks", "list", db=str(file))

    assert ran.code == 2
    assert ran.err == f"error: not-a-store: {file}: file is not a database\n"
    assert file.read_text() == "my notes " * 1000


def test_another_programs_database_is_refused_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "weft.db"
    other = sqlite3.connect(file)
    other.execute("CREATE TABLE tasks (id)")
    other.close()

    ran = weft("flow", "submit", EXAMPLE, db=str(file))

    assert ran.code == 2
    assert ran.err == f"error: not-a-store: {file} is a SQLite database, but not a weft store\n"


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "weft.db"
    assert weft("flow", "submit", EXAMPLE, db=str(file)).code == 0
    newer = sqlite3.connect(file)
    newer.execute("PRAGMA user_version = 999")
    newer.close()

    ran = weft("tasks", "list", "--json", db=str(file))

    assert ran.code == 5
    assert ran.json["error"]["code"] == "schema-too-new"
    assert "999" in ran.json["error"]["message"]


def test_a_folder_cannot_be_a_store(tmp_path: Path) -> None:
    ran = weft("tasks", "list", db=str(tmp_path))

    assert ran.code == 2
    assert ran.err == f"error: not-a-store: {tmp_path} is a folder; a store is a file\n"


def test_a_very_short_file_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("A")

    assert weft("tasks", "list", db=str(tmp_path / "note")).code == 2
    assert (tmp_path / "note").read_text() == "A"


@pytest.mark.parametrize("db", ["mysql://u:secret@h/db", "PostgreSQL+x://u:secret@h/db", ""])
def test_what_is_no_path_and_no_known_url_is_refused_without_repeating_it(tmp_path: Path, db: str) -> None:
    ran = weft("tasks", "list", db=db)

    assert ran.code == 2
    assert ran.err.startswith("error: invalid-setting: ")
    assert "secret" not in ran.err


def test_an_empty_user_is_not_the_operator(tmp_path: Path) -> None:
    assert weft("tasks", "list", "--user", "", db=str(tmp_path / "weft.db")).code == 2


def test_a_path_below_a_file_cannot_be_a_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    ran = weft("tasks", "list", db=str(tmp_path / "file" / "weft.db"))

    assert ran.code == 5
    assert ran.err.startswith("error: store-unreachable: ")


def test_a_damaged_database_is_said_to_be_damaged(tmp_path: Path) -> None:
    file = tmp_path / "weft.db"
    weft("flow", "submit", EXAMPLE, db=str(file))
    content = bytearray(file.read_bytes())
    content[4096:] = b"\x55" * (len(content) - 4096)
    file.write_bytes(content)

    ran = weft("tasks", "list", db=str(file))

    assert ran.code == 1
    assert ran.err.startswith("error: store-damaged: ")
    assert weft("doctor", db=str(file)).code == 1


def in_small_disk(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a shell script where `$DISK` is a file system of 600 KB and `weft` the command."""
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare to mount a small file system")
    setup = (
        f"mount -t tmpfs -o size=600k none {folder} || exit 77; DISK={folder}; W='{sys.executable} -m weft'; "
    )
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", setup + script],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"cannot mount a small file system here: {done.stderr.strip()}")
    return done


@pytest.fixture
def large_flow(tmp_path: Path) -> Path:
    file = tmp_path / "large.json"
    tasks = ",".join(
        f'{{"name": "t{number}", "inputs": {{"text": "{"x" * 500}"}}}}' for number in range(2000)
    )
    file.write_text(f"[{tasks}]")
    return file


def test_a_full_disk_refuses_the_flow_whole_and_keeps_what_was_there(
    tmp_path: Path, large_flow: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()

    done = in_small_disk(
        f"$W flow submit {EXAMPLE} --db $DISK/weft.db || exit 1;"
        f"$W flow submit {large_flow} --db $DISK/weft.db; echo exit $?;"
        "$W tasks list --roots --db $DISK/weft.db; $W doctor --db $DISK/weft.db",
        disk,
    )

    assert "exit 1" in done.stdout
    assert "error: store-full: " in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout.count("release") == 1
    assert "5 tasks, 1 event" in done.stdout


def test_a_read_only_disk_is_said_to_be_read_only(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()

    done = in_small_disk(
        f"$W flow submit {EXAMPLE} --db $DISK/weft.db || exit 1; mount -o remount,ro {disk};"
        f"$W flow submit {EXAMPLE} --db $DISK/weft.db; echo exit $?;"
        "$W tasks list --db $DISK/weft.db; echo exit $?",
        disk,
    )

    assert done.stderr.startswith("error: store-read-only: ")
    assert done.stdout.splitlines()[1] == "exit 1"
    assert "release" in done.stdout, "what is there can still be read"
    assert done.stdout.splitlines()[-1] == "exit 0"


def test_commits_in_a_log_on_a_read_only_disk_are_not_passed_over(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()

    done = in_small_disk(
        f"$W flow submit {EXAMPLE} --db $DISK/weft.db || exit 1;"
        f"WEFT_FAULT=store.committed $W flow submit {EXAMPLE} --db $DISK/weft.db; mount -o remount,ro {disk};"
        "$W tasks list --db $DISK/weft.db; echo exit $?",
        disk,
    )

    assert "error: store-read-only: " in done.stderr
    assert "has commits in its -wal file" in done.stderr
    assert done.stdout.splitlines()[-1] == "exit 1"


def test_an_unreachable_server_is_one_line_without_the_password() -> None:
    ran = weft("tasks", "list", db="postgresql://ann:secret@127.0.0.1:1/weft")

    assert ran.code == 5
    assert ran.err.startswith("error: store-unreachable: ")
    assert "secret" not in ran.err
    assert ran.err.count("\n") == 1
