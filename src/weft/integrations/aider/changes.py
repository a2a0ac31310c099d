"""Finds the changes that aider made, by comparing snapshots of the work tree before and after."""

import difflib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from weft.limits import decode_text
from weft.memory.files.git import disable_repository_commands, git_variables, run_git
from weft.secrets.truncation import cut_middle

MAX_DIFF_CHARACTERS = 1_000_000

GIT_SECONDS = 120.0
"""Timeout of one git command: enough for a repository of a million files."""


class Changed(Struct, frozen=True, kw_only=True):
    """The changes between two snapshots."""

    diff: str = ""
    edited_files: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    """Hashes, newest first."""


def repository_of(folder: Path) -> Path | None:
    """Return the root of a folder's work tree; None if it is in no repository, or git is not installed."""
    try:
        found = _git(folder, "rev-parse", "--show-toplevel")
    except (GitFailed, FileNotFoundError):
        return None
    return Path(found.removesuffix("\n")) if found.strip() else None


class GitFailed(Exception):
    """A git command failed; the message is its output."""


class GitSnapshot:
    """A snapshot of the tracked and the given files of a work tree, with uncommitted changes, as a git tree.

    It uses a copy of the index and a separate object folder, so the repository is not changed. Blocks.
    """

    def __init__(self, root: Path, files: Sequence[Path], scratch: Path) -> None:
        self._root = root
        self._files = [str(file) for file in files if file.is_relative_to(root)]
        self._scratch = scratch
        self._objects = scratch / "objects"
        self._objects.mkdir()
        self._variables = git_variables(disable_repository_commands(root))
        self._head = self._find_head()
        self._tree = self._write_tree()

    def changed(self) -> Changed:
        head, tree = self._find_head(), self._write_tree()
        between = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", self._tree, tree)
        names = self._git_on_copy("diff", "--name-only", "-z", *between)
        return Changed(
            diff=_shown_diff(self._git_on_copy("diff", *between)),
            edited_files=tuple(name for name in names.split("\0") if name),
            commits=self._commits(head),
        )

    def _commits(self, head: str | None) -> tuple[str, ...]:
        if head is None or head == self._head:
            return ()
        since = () if self._head is None else (f"^{self._head}",)
        return tuple(_git(self._root, "rev-list", head, *since).split())

    def _find_head(self) -> str | None:
        try:
            return _git(self._root, "rev-parse", "--quiet", "--verify", "HEAD").strip()
        except GitFailed:
            return None  # no commit yet

    def _write_tree(self) -> str:
        index = self._root / _git(self._root, "rev-parse", "--git-path", "index").strip()
        if index.is_file():  # with the index, git reads only the files that have changed
            # copy2 keeps its time: git rereads files as new as the index, because times are whole seconds.
            shutil.copy2(index, self._scratch / "index")
        self._git_on_copy("add", "--update", "--ignore-errors", ".")
        for file in self._files:
            if Path(file).exists():
                self._git_on_copy("add", "--force", "--ignore-errors", "--", file)
        return self._git_on_copy("write-tree").strip()

    def _git_on_copy(self, *arguments: str) -> str:
        """Run git with the copy of the index and the separate object folder."""
        repository_objects = self._root / _git(self._root, "rev-parse", "--git-path", "objects").strip()
        return _git(
            self._root,
            *arguments,
            GIT_INDEX_FILE=str(self._scratch / "index"),
            GIT_OBJECT_DIRECTORY=str(self._objects),
            GIT_ALTERNATE_OBJECT_DIRECTORIES=str(repository_objects),
            **self._variables,
        )


class FileSnapshot:
    """A snapshot of the given files without git; changes to other files are not found."""

    def __init__(self, folder: Path, files: Sequence[Path]) -> None:
        self._folder = folder
        self._texts = {file: _text(file) for file in files}

    def changed(self) -> Changed:
        diffs, edited = [], []
        for file, before in self._texts.items():
            after = _text(file)
            if after == before:
                continue
            name = os.path.relpath(file, self._folder)
            edited.append(name)
            diffs += _file_diff(name, before, after)
        return Changed(diff=_shown_diff("".join(diffs)), edited_files=tuple(edited))


WorktreeSnapshot = GitSnapshot | FileSnapshot
"""A snapshot of the files before aider runs."""


def _file_diff(name: str, before: str | None, after: str | None) -> list[str]:
    lines = difflib.unified_diff(
        (before or "").splitlines(keepends=True),
        (after or "").splitlines(keepends=True),
        "/dev/null" if before is None else f"a/{name}",
        "/dev/null" if after is None else f"b/{name}",
    )
    return [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines]


def _text(file: Path) -> str | None:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return None


def _shown_diff(diff: str) -> str:
    return cut_middle(diff, MAX_DIFF_CHARACTERS)


def _git(folder: Path, *arguments: str, **variables: str) -> str:
    """Run git and return its output; executables that the repository configures are not started."""
    try:
        done = run_git(folder, *arguments, timeout_seconds=GIT_SECONDS, LC_ALL="C", **variables)
    except subprocess.TimeoutExpired:
        raise GitFailed(f"git {arguments[0]} did not end within {GIT_SECONDS:g} s") from None
    if done.returncode != 0:
        error = decode_text(done.stderr).strip()
        raise GitFailed(f"git {arguments[0]} failed: {error or f'exit code {done.returncode}'}")
    return decode_text(done.stdout)
