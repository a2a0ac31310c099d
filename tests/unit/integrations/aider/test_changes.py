"""What happened to files between two looks; git is the real one."""

import os
from pathlib import Path

from tests.aider_projects import RIGHT, WRONG, a_repository, git
from weft.integrations.aider.changes import FileSnapshot, GitSnapshot, repository_of


def look(root: Path, scratch: Path, *files: str) -> GitSnapshot:
    scratch.mkdir()
    return GitSnapshot(root, [root / file for file in files], scratch)


def test_what_is_committed_and_what_is_not_is_in_the_diff(tmp_path: Path) -> None:
    root = a_repository(tmp_path / "root")
    (root / "other.py").write_text("before\n")
    git(root, "add", "other.py")
    before = look(root, tmp_path / "scratch")

    (root / "calc.py").write_text(RIGHT)
    git(root, "commit", "--quiet", "--message", "Fix", "calc.py")
    (root / "other.py").write_text("after\n")
    changed = before.changed()

    assert changed.edited_files == ("calc.py", "other.py")
    assert "-    return a - b\n+    return a + b\n" in changed.diff
    assert "-before\n+after\n" in changed.diff
    assert changed.commits == (git(root, "rev-parse", "HEAD"),)


def test_an_edit_in_the_second_of_the_checkout_is_seen(tmp_path: Path) -> None:
    root = a_repository(tmp_path / "root")
    git(root, "config", "core.trustctime", "false")  # a test can set only the time of the content
    long_ago = (1_000_000_000, 1_000_000_000)
    os.utime(root / "calc.py", long_ago)
    git(root, "update-index", "--refresh")
    os.utime(root / ".git" / "index", long_ago)
    before = look(root, tmp_path / "scratch")

    (root / "calc.py").write_text(RIGHT)
    os.utime(root / "calc.py", long_ago)

    assert len(RIGHT) == len(WRONG)
    assert before.changed().edited_files == ("calc.py",)


def test_what_was_changed_before_is_not_in_it(tmp_path: Path) -> None:
    root = a_repository(tmp_path / "root")
    (root / "calc.py").write_text(WRONG + "# mine\n")
    before = look(root, tmp_path / "scratch")

    (root / "calc.py").write_text(RIGHT + "# mine\n")

    assert "+# mine" not in before.changed().diff


def test_a_file_that_git_does_not_know_counts_if_it_is_named(tmp_path: Path) -> None:
    root = a_repository(tmp_path / "root")
    (root / "new.py").write_text("one\n")
    (root / "other.py").write_text("one\n")
    before = look(root, tmp_path / "scratch", "new.py")

    (root / "new.py").write_text("two\n")
    (root / "other.py").write_text("two\n")
    changed = before.changed()

    assert changed.edited_files == ("new.py",)
    assert "-one\n+two\n" in changed.diff


def test_looking_changes_nothing_in_the_repository(tmp_path: Path) -> None:
    root = a_repository(tmp_path / "root")
    (root / "calc.py").write_text(RIGHT)
    files = sorted(path for path in (root / ".git").rglob("*"))
    index = (root / ".git" / "index").read_bytes()

    look(root, tmp_path / "scratch", "calc.py").changed()

    assert sorted(path for path in (root / ".git").rglob("*")) == files
    assert (root / ".git" / "index").read_bytes() == index


def test_a_repository_without_a_commit_gets_its_first(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    git(root, "init", "--quiet")
    before = look(root, tmp_path / "scratch", "calc.py")

    (root / "calc.py").write_text(RIGHT)
    git(root, "add", ".")
    git(root, "-c", "user.name=A", "-c", "user.email=a@b.c", "commit", "--quiet", "--message", "First")
    changed = before.changed()

    assert changed.edited_files == ("calc.py",)
    assert len(changed.commits) == 1


def test_without_a_repository_the_named_files_are_compared(tmp_path: Path) -> None:
    (tmp_path / "calc.py").write_text(WRONG)
    files = [tmp_path / "calc.py", tmp_path / "new.py", tmp_path / "same.py"]
    before = FileSnapshot(tmp_path, files)

    (tmp_path / "calc.py").write_text(RIGHT.rstrip("\n"))
    (tmp_path / "new.py").write_text("x\n")
    changed = before.changed()

    assert repository_of(tmp_path) is None
    assert changed.edited_files == ("calc.py", "new.py")
    assert "+    return a + b\n\\ No newline at end of file\n" in changed.diff
    assert "--- /dev/null\n+++ b/new.py\n" in changed.diff
