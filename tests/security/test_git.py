"""A repository of a stranger starts nothing: no program that its configuration names, and no transport."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.command_line import weft
from weft.integrations.aider.changes import GitSnapshot
from weft.memory.files.git import commit_times, disable_repository_commands, git_environment
from weft.memory.files.ignore import tracked_though_ignored

PROGRAMS = (
    "core.fsmonitor", "core.pager", "core.sshCommand", "core.gitProxy", "core.askPass", "core.editor",
    "core.alternateRefsCommand", "credential.helper", "diff.external", "diff.trap.command",
    "diff.trap.textconv", "filter.trap.clean", "filter.trap.smudge", "filter.trap.process", "gpg.program",
    "pager.log", "pager.config", "remote.origin.uploadpack", "uploadpack.packObjectsHook",
)  # fmt: skip


def git(root: Path, *arguments: str) -> str:
    """Run git as a stranger, without the settings of the user."""
    environment = {
        **os.environ, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
    }  # fmt: skip
    done = subprocess.run(
        ["git", "-C", str(root), *arguments], env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Return a partial clone with objects missing; a process that it starts creates a file `sprung`."""
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    origin.mkdir()
    git(origin, "init", "-q")
    git(origin, "config", "uploadpack.allowFilter", "true")
    (origin / "a.py").write_text("def answer(): return 41\n")
    (origin / ".gitattributes").write_text("*.py filter=trap diff=trap\n")
    (origin / ".gitignore").write_text("a.py\n")
    git(origin, "add", "-Af")
    git(origin, "commit", "-qm", "first")
    (origin / "a.py").write_text("def answer(): return 42\n")
    git(origin, "commit", "-qam", "second")
    git(tmp_path, "clone", "-q", "--filter=tree:0", f"file://{origin}", str(clone))
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{tmp_path}/sprung'\nexit 1\n")
    trap.chmod(0o755)
    hooks = clone / "hooks"
    hooks.mkdir()
    for hook in ("post-index-change", "reference-transaction", "fsmonitor-watchman", "pre-commit"):
        (hooks / hook).symlink_to(trap)
    for setting in PROGRAMS:
        git(clone, "config", setting, str(trap))
    for setting, value in (
        ("core.hooksPath", str(hooks)),
        ("log.showSignature", "true"),
        ("commit.gpgSign", "true"),
        ("filter.trap.required", "true"),
        ("protocol.allow", "always"),
        ("protocol.file.allow", "always"),
        ("protocol.ext.allow", "always"),
    ):
        git(clone, "config", setting, value)
    return clone


def sprung(clone: Path) -> str:
    file = clone.parent / "sprung"
    return file.read_text() if file.exists() else ""


def test_the_trap_works(hostile: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        git(hostile, "log", "--name-only", "--", "a.py")

    assert "trap" in sprung(hostile)


@pytest.mark.parametrize(
    "url", ["", "ext::/bin/sh -c touch%20sprung", "ssh://host/x", "http://127.0.0.1:9/x"]
)
def test_a_partial_clone_fetches_nothing(hostile: Path, url: str) -> None:
    if url:
        git(hostile, "config", "remote.origin.url", url)

    commit_times(hostile, ["a.py"])

    assert sprung(hostile) == ""
    assert not (hostile / "sprung").exists()


def test_questions_about_a_repository_start_nothing(hostile: Path) -> None:
    assert tracked_though_ignored(hostile) == [b"a.py"]
    ran = weft("context", "--explain", "answer", db=str(hostile.parent / "weft.db"), cwd=hostile)

    assert ran.code == 0, ran.err
    assert sprung(hostile) == ""


def test_looks_at_what_aider_changed_start_nothing(hostile: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    git(hostile, "config", "core.hooksPath", str(hostile / "hooks"))
    look = GitSnapshot(hostile, [hostile / "a.py"], scratch)
    (hostile / "a.py").write_text("def answer(): return 43\n")

    changed = look.changed()

    assert changed.edited_files == ("a.py",)
    assert "+def answer(): return 43" in changed.diff
    assert sprung(hostile) == ""


def test_programs_of_the_repository_are_off_and_those_of_the_user_stay(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "gitconfig"
    own.write_text('[filter "mine"]\n\tclean = cat\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(own))

    off = dict(disable_repository_commands(hostile))

    assert off["filter.trap.clean"] == off["filter.trap.process"] == ""
    assert off["commit.gpgSign"] == "false"
    assert not any("mine" in name for name in off)
    environment = {**git_environment(off.items()), "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b"}
    environment |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    (hostile / "new.py").write_text("1\n")
    for arguments in (("add", "new.py"), ("commit", "-qm", "x")):
        subprocess.run(["git", "-C", str(hostile), *arguments], env=environment, check=False)
    assert sprung(hostile) == ""


@pytest.fixture
def with_submodule(tmp_path: Path) -> Path:
    """Return a repository whose submodule has its own settings, and a changed file that they apply to."""
    inner, outer, trap = tmp_path / "inner", tmp_path / "outer", tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{tmp_path}/sprung'\ncat\n")
    trap.chmod(0o755)
    for folder in (inner, outer):
        folder.mkdir()
        git(folder, "init", "-q")
    (inner / ".gitattributes").write_text("*.py filter=evil\n")
    (inner / "a.py").write_text("1\n")
    (outer / "b.py").write_text("1\n")
    git(inner, "add", "-A")
    git(inner, "commit", "-qm", "first")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    git(outer, "add", "-A")
    git(outer, "commit", "-qm", "first")
    for setting in ("filter.evil.clean", "core.fsmonitor"):
        git(outer / "sub", "config", setting, str(trap))
    (outer / "sub" / "a.py").write_text("2\n")  # of the same size, so that git has to look into it
    return outer


def test_looks_at_what_aider_changed_start_nothing_that_a_submodule_names(
    with_submodule: Path, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    look = GitSnapshot(with_submodule, [with_submodule / "b.py"], scratch)
    (with_submodule / "b.py").write_text("2\n")

    assert look.changed().edited_files == ("b.py",)
    assert sprung(with_submodule) == ""


def test_a_submodule_that_is_a_link_to_its_repository_ends_the_search(with_submodule: Path) -> None:
    shutil.rmtree(with_submodule / "sub")
    (with_submodule / "sub").symlink_to(".")

    assert disable_repository_commands(with_submodule) == []


def test_comparisons_by_aider_start_nothing(hostile: Path) -> None:
    environment = git_environment(disable_repository_commands(hostile))
    (hostile / "a.py").write_text("def answer(): return 43\n")

    done = subprocess.run(
        ["git", "-C", str(hostile), "diff"], env=environment, capture_output=True, text=True, check=True
    )

    assert "+def answer(): return 43" in done.stdout
    assert sprung(hostile) == ""
