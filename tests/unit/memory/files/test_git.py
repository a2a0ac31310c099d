"""Git is asked seldom, and always of the repository that is walked."""

import os
import subprocess
from pathlib import Path

import pytest

from weft.memory.files import git as git_module
from weft.memory.files import ignore
from weft.memory.files.git import LOCAL_VARIABLES, commit_times, git_output
from weft.memory.files.walk import Walk


def repository(folder: Path, **files: str) -> Path:
    """Create a repository with the files committed; `_` in a name stands for a dot."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    git(folder, "add", "-f", ".")
    git(folder, "commit", "-qm", "x")
    return folder


def git(folder: Path, *arguments: str) -> str:
    identity = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(
        command, env=os.environ | identity, check=True, capture_output=True, text=True
    ).stdout


def test_git_is_asked_once_for_each_repository_however_many_paths_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path / "root", a_txt="")
    inner = repository(root / "inner", _gitignore="*.log\n", kept_log="")
    names = [f"{number}.txt" for number in range(20)]
    for name in names:
        (inner / name).write_text("")
    asked: list[tuple[str, ...]] = []
    ask = git_output

    def counted(folder: Path, *arguments: str) -> bytes:
        asked.append((str(folder), *arguments))
        return ask(folder, *arguments)

    for module in (git_module, ignore):
        monkeypatch.setattr(module, "git_output", counted)
    walk = Walk(root)
    for name in [*names, "kept.log", "other.log"]:
        found = [each.path for each in walk.below(f"inner/{name}")]
        assert found == ([] if name == "other.log" else [f"inner/{name}"])

    assert len(asked) == len(set(asked)) == 4


def test_variables_of_another_repository_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = repository(tmp_path / "here", _gitignore="*.log\nsecret.txt\n", tracked_log="")
    (here / "secret.txt").write_text("")
    other = repository(tmp_path / "other", secret_txt="")
    expected = [each.path for each in Walk(here).all()]
    times = commit_times(here, ["tracked.log", "secret.txt"])

    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))

    assert [each.path for each in Walk(here).all()] == expected == [".gitignore", "tracked.log"]
    assert commit_times(here, ["tracked.log", "secret.txt"]) == times
    assert list(times) == ["tracked.log"]


def test_all_variables_are_dropped_that_git_calls_local(tmp_path: Path) -> None:
    named = git(tmp_path, "rev-parse", "--local-env-vars").split()

    assert "GIT_DIR" in named
    assert set(named) <= LOCAL_VARIABLES
