"""An update of the index that is killed at any moment leaves an index that can be used and goes on."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.memory.index.test_index import found, is_sound
from weft.memory.index.index import SqliteIndex

UPDATE = """
import os, signal, sys
from pathlib import Path
from weft.memory.index import prepare, update as updating
from weft.memory.index.index import SqliteIndex
prepare.FILES_A_BATCH = 1
point, left = sys.argv[3], int(sys.argv[4])
written = updating.insert_file

def insert_file(*arguments, **named):
    global left
    if point == "before":
        left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    written(*arguments, **named)
    if point == "after":
        left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)

updating.insert_file = insert_file
index = SqliteIndex(Path(sys.argv[1]))
index.update([Path(sys.argv[2])])
index.close()
"""


@pytest.mark.parametrize("point", ["before", "after"])
@pytest.mark.parametrize("written", [0, 3, 9])
def test_a_killed_update_leaves_a_usable_index(tmp_path: Path, point: str, written: int) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for number in range(10):
        (root / f"{number}.txt").write_text(f"word number{number}\n")

    command = [sys.executable, "-c", UPDATE, str(tmp_path / "index.db"), str(root), point, str(written)]
    killed = subprocess.run(command, check=False, timeout=60)

    assert killed.returncode == -signal.SIGKILL
    index = SqliteIndex(tmp_path / "index.db")
    assert len(found(index, "word")) == written
    assert is_sound(index)
    assert index.update([root]).files == 10  # at once: the lock of a dead process holds nobody up
    assert len(found(index, "word")) == 10
    assert is_sound(index)
    index.close()


SHARED = """
import sys
from pathlib import Path
from weft.memory.index.index import SqliteIndex
index = SqliteIndex(Path(sys.argv[1]))
for _ in range(5):
    report = index.update([Path(sys.argv[2])])
    query = "SELECT count(*) FROM memory_words WHERE memory_words MATCH 'word'"
    rows = index.connection.execute(query).fetchone()
index.close()
print(report.files, rows[0])
"""


def test_several_processes_index_one_root_at_the_same_time(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for number in range(60):
        (root / f"{number}.txt").write_text(f"word {number}\n")

    command = [sys.executable, "-c", SHARED, str(tmp_path / "index.db"), str(root)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    printed = [process.communicate(timeout=120)[0] for process in running]

    assert [process.returncode for process in running] == [0] * 4
    assert printed == ["60 60\n"] * 4
    index = SqliteIndex(tmp_path / "index.db")
    assert is_sound(index)
    index.close()
