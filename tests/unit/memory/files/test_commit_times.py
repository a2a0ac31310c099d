"""When git says that files were changed."""

import os
import subprocess
from pathlib import Path

import pytest

from weft.memory.files.git import commit_times


def git(root: Path, *arguments: str, at: int = 0) -> None:
    environment = os.environ | {
        "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1", "GIT_COMMITTER_DATE": f"{at} +0000",
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
    }  # fmt: skip
    subprocess.run(["git", "-C", str(root), *arguments], env=environment, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "lib").mkdir()
    for number, name in enumerate(["lib/a.py", "lib/é *.py", "lib/a.py"], 1):
        (tmp_path / name).write_text(f"{number}\n")
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-qm", "x", at=1_700_000_000 + number)
    (tmp_path / "lib/new.py").write_text("new\n")
    return tmp_path


def test_the_last_commit_of_each_file_counts(repository: Path) -> None:
    found = commit_times(repository, ["lib/a.py", "lib/é *.py", "lib/new.py", "gone"])

    assert found == {"lib/a.py": 1_700_000_003.0, "lib/é *.py": 1_700_000_002.0}


def test_paths_are_relative_to_a_root_inside_the_repository(repository: Path) -> None:
    assert commit_times(repository / "lib", ["a.py"]) == {"a.py": 1_700_000_003.0}


def test_without_a_repository_or_git_there_are_none(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("plain")

    assert commit_times(folder, ["a"]) == {}
    monkeypatch.setenv("PATH", "")
    assert commit_times(folder, ["a"]) == {}


def test_the_repository_cannot_start_a_program(repository: Path) -> None:
    trap = repository / "trap"
    trap.write_text(f"#!/bin/sh\ntouch '{repository}/sprung'\n")
    trap.chmod(0o755)
    for setting in ("core.fsmonitor", "core.pager", "gpg.program", "core.sshCommand"):
        git(repository, "config", setting, str(trap))
    git(repository, "config", "log.showSignature", "true")

    assert "lib/a.py" in commit_times(repository, ["lib/a.py"])
    assert not (repository / "sprung").exists()
