"""What happened to the files while aider ran: two looks at them, and what lies between."""

import difflib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from weft.memory.files.git import git_environment, git_variables, without_own_programs
from weft.secrets.registry import redact
from weft.secrets.truncation import cut_middle

MAX_DIFF_CHARACTERS = 1_000_000

GIT_SECONDS = 120.0
"""How long one git command may take: a repository of a million files fits, a lock that hangs does not."""


class Changed(Struct, frozen=True, kw_only=True):
    """What lies between the two looks."""

    diff: str = ""
    edited_files: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    """Hashes, the newest first."""


class WorktreeSnapshot(Protocol):
    """A look at the files before; blocks, as the second one does."""

    def changed(self) -> Changed:
        """What has changed since."""
        ...


def first_look(folder: Path, files: Sequence[Path], scratch: Path) -> WorktreeSnapshot:
    """The state of the repository that a folder is in; where it is in none, of the files."""
    root = repository_of(folder)
    return FileLook(folder, files) if root is None else GitLook(root, files, scratch)


def repository_of(folder: Path) -> Path | None:
    """The work tree that a folder is in; None when it is in none, or git is not installed."""
    try:
        found = _git(folder, "rev-parse", "--show-toplevel")
    except (GitFailed, FileNotFoundError):
        return None
    return Path(found.removesuffix("\n")) if found.strip() else None


class GitFailed(Exception):
    """A git command failed; the message is what it said."""


class GitLook:
    """The work tree as a git tree, with what is not committed.

    It is written with a copy of the index into a folder of objects of our own: the repository is not touched.
    """

    def __init__(self, root: Path, files: Sequence[Path], scratch: Path) -> None:
        self._root = root
        self._files = [str(file) for file in files if file.is_relative_to(root)]
        self._scratch = scratch
        self._objects = scratch / "objects"
        self._objects.mkdir()
        self._variables = git_variables(without_own_programs(root))
        self._head = self._find_head()
        self._tree = self._write_tree()

    def changed(self) -> Changed:
        """What git says between the two trees, and which commits were made."""
        head, tree = self._find_head(), self._write_tree()
        between = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", self._tree, tree)
        names = self._own_git("diff", "--name-only", "-z", *between)
        return Changed(
            diff=_bounded(self._own_git("diff", *between)),
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
            return None  # there is no commit yet

    def _write_tree(self) -> str:
        index = self._root / _git(self._root, "rev-parse", "--git-path", "index").strip()
        if index.is_file():  # with what git knows of each file: it then reads only those that have changed
            # With its time: git reads files again that are as young as the index; times are whole seconds.
            shutil.copy2(index, self._scratch / "index")
        self._own_git("add", "--update", "--ignore-errors", ".")
        for file in self._files:
            if Path(file).exists():
                self._own_git("add", "--force", "--ignore-errors", "--", file)
        return self._own_git("write-tree").strip()

    def _own_git(self, *arguments: str) -> str:
        theirs = self._root / _git(self._root, "rev-parse", "--git-path", "objects").strip()
        return _git(
            self._root,
            *arguments,
            GIT_INDEX_FILE=str(self._scratch / "index"),
            GIT_OBJECT_DIRECTORY=str(self._objects),
            GIT_ALTERNATE_OBJECT_DIRECTORIES=str(theirs),
            **self._variables,
        )


class FileLook:
    """The text of the files that aider was given: without git nobody knows of others."""

    def __init__(self, folder: Path, files: Sequence[Path]) -> None:
        self._folder = folder
        self._texts = {file: _text(file) for file in files}

    def changed(self) -> Changed:
        """A unified diff of each file whose text is another one."""
        diffs, edited = [], []
        for file, before in self._texts.items():
            after = _text(file)
            if after == before:
                continue
            name = os.path.relpath(file, self._folder)
            edited.append(name)
            diffs += _file_diff(name, before, after)
        return Changed(diff=_bounded("".join(diffs)), edited_files=tuple(edited))


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


def _bounded(diff: str) -> str:
    return cut_middle(redact(diff), MAX_DIFF_CHARACTERS)


def _git(folder: Path, *arguments: str, **variables: str) -> str:
    """Return what a git command prints; it starts nothing that the repository names."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            env={**git_environment(), "LC_ALL": "C", **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise GitFailed(f"git {arguments[0]} did not end within {GIT_SECONDS:g} s") from None
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise GitFailed(f"git {arguments[0]}: {said or f'exit code {done.returncode}'}")
    return done.stdout.decode("utf-8", "replace")
