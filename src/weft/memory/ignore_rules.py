"""Which paths below a root are ignored: by `.gitignore` and `.weftignore` files, git, and settings."""

import os
import stat
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from weft.memory.git_environment import git_environment
from weft.memory.ignore_pattern import Pattern, read_patterns

IGNORE_FILES = (".gitignore", ".weftignore")
"""The later one wins."""

ALWAYS = frozenset({b".git", b".weft"})
"""Folders that are never looked into."""

MAX_IGNORE_BYTES = 1024 * 1024


class FolderRules:
    """The rules that stand in one place, and are about the paths below it."""

    def __init__(self, base: bytes, patterns: Sequence[Pattern]) -> None:
        self._cut = len(base) + 1 if base else 0
        self._patterns = patterns
        self._of_names = any(pattern.is_of_names for pattern in patterns)
        self._of_paths = any(not pattern.is_of_names for pattern in patterns)
        self._by_name: dict[tuple[bytes, bool], int] = {}
        """The number of the last rule that matches a name: most names come again and again."""

    def verdict(self, path: bytes, name: bytes, is_folder: bool) -> bool | None:
        """Whether the path is ignored by the last rule that matches it; None when none does."""
        best = self._last_of_names(name, is_folder) if self._of_names else -1
        if self._of_paths:
            best = self._last_of_paths(path[self._cut :], is_folder, best)
        return None if best < 0 else self._patterns[best].is_ignoring

    def _last_of_names(self, name: bytes, is_folder: bool) -> int:
        found = self._by_name.get((name, is_folder))
        if found is None:
            found = self._by_name[name, is_folder] = self._search_names(name, is_folder)
        return found

    def _search_names(self, name: bytes, is_folder: bool) -> int:
        for number in range(len(self._patterns) - 1, -1, -1):
            pattern = self._patterns[number]
            if pattern.is_of_names and (is_folder or not pattern.is_for_folders) and pattern.matches(name):
                return number
        return -1

    def _last_of_paths(self, path: bytes, is_folder: bool, best: int) -> int:
        for number in range(len(self._patterns) - 1, best, -1):
            pattern = self._patterns[number]
            if (
                not pattern.is_of_names
                and (is_folder or not pattern.is_for_folders)
                and pattern.matches(path)
            ):
                return number
        return best


class Rules:
    """The rules in force in a folder: its own, then those above it, then those of the repository."""

    def __init__(
        self,
        lists: Sequence[FolderRules],
        *,
        prefix: bytes = b"",
        always: Sequence[FolderRules] = (),
        ignore_case: bool = False,
    ) -> None:
        self._lists = tuple(lists)
        """The strongest last."""
        self._prefix = prefix
        """What comes before a path that is told from the root, for rules that know it from further above."""
        self._always = tuple(always)
        """What settings say: stronger than any file, in every repository below the root."""
        self._ignore_case = ignore_case

    def is_ignored(self, path: bytes, *, is_folder: bool) -> bool:
        """Whether a path in this folder is ignored; folders above it are taken not to be."""
        name = path.rpartition(b"/")[2]
        if name in ALWAYS:
            return True
        for rules in reversed(self._always):
            verdict = rules.verdict(path, name, is_folder)
            if verdict is not None:
                return verdict
        if self._prefix:
            path = self._prefix + path
        for rules in reversed(self._lists):
            verdict = rules.verdict(path, name, is_folder)
            if verdict is not None:
                return verdict
        return False

    def is_ignored_by_us(self, path: bytes) -> bool:
        """Whether a file is ignored whatever git says of it: by the settings, or because of its folder."""
        parts = path.split(b"/")
        for end in range(1, len(parts) + 1):
            here = b"/".join(parts[:end])
            is_folder = end < len(parts)
            if parts[end - 1] in ALWAYS:
                return True
            verdicts = [rules.verdict(here, parts[end - 1], is_folder) for rules in reversed(self._always)]
            if next((verdict for verdict in verdicts if verdict is not None), False):
                return True
        return False

    def seen_from(self, prefix: bytes, always: Sequence[FolderRules]) -> "Rules":
        """The same rules for paths that are told from a folder below."""
        return Rules(self._lists, prefix=prefix, always=always, ignore_case=self._ignore_case)

    def inside(self, folder: Path, path: bytes, names: Sequence[str]) -> "Rules":
        """The rules in a folder below, whose entries have these names."""
        if ".git" in names:
            # A repository of its own: git does not look into it from outside, it has its own rules.
            return repository_rules(folder, path, self._always)
        base = self._prefix + path
        own = [_read(folder / name, base, self._ignore_case) for name in IGNORE_FILES if name in names]
        found = [rules for rules in own if rules is not None]
        if not found:
            return self
        return Rules(
            (*self._lists, *found), prefix=self._prefix, always=self._always, ignore_case=self._ignore_case
        )


def top_of(folder: Path) -> Path | None:
    """Where the git repository begins that a folder belongs to."""
    # Path.exists would raise where we may not look.
    return next((each for each in (folder, *folder.parents) if os.path.exists(each / ".git")), None)  # noqa: PTH110


def rules_of(root: Path, extra: Sequence[str] = ()) -> Rules:
    """The rules at a root: those of the folders above it too when it lies in a git repository."""
    patterns = read_patterns("\n".join(extra).encode("utf-8", "surrogateescape"))
    always = [FolderRules(b"", patterns)] if patterns else []
    top = top_of(root)
    if top is None:
        return Rules((), always=always).inside(root, b"", IGNORE_FILES)
    rules = repository_rules(top, b"", ())
    relative = root.relative_to(top)
    for depth in range(1, len(relative.parts) + 1):
        path = Path(*relative.parts[:depth])
        rules = rules.inside(top / path, os.fsencode(path), IGNORE_FILES)
    prefix = os.fsencode(relative) + b"/" if relative.parts else b""
    return rules.seen_from(prefix, always)


def rule_files_above(root: Path) -> list[Path]:
    """The files of rules that count at a root and are not below it, whether they are there or not."""
    top = top_of(root)
    if top is None:
        return []
    excludes_file, _, exclude = _git_settings(top)
    above = [folder for folder in root.parents if folder.is_relative_to(top)]
    rules = [folder / name for folder in above for name in IGNORE_FILES]
    return [*rules, *(file for file in (excludes_file, exclude) if file is not None)]


def repository_rules(top: Path, path: bytes, always: Sequence[FolderRules]) -> Rules:
    """The rules at the top of a git repository."""
    excludes_file, ignore_case, exclude = _git_settings(top)
    lists = []
    for file in (excludes_file, exclude):
        content = _content(file, follow=True) if file is not None else None
        if content is not None:
            lists.append(FolderRules(path, read_patterns(content, ignore_case=ignore_case)))
    for name in IGNORE_FILES:
        rules = _read(top / name, path, ignore_case)
        if rules is not None:
            lists.append(rules)
    return Rules(lists, always=always, ignore_case=ignore_case)


def _read(file: Path, base: bytes, ignore_case: bool) -> FolderRules | None:
    content = _content(file, follow=False)
    if content is None:
        return None
    return FolderRules(base, read_patterns(content, ignore_case=ignore_case))


def _content(file: Path, *, follow: bool) -> bytes | None:
    """What a file of rules says; git follows no links to those inside a tree."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    try:
        descriptor = os.open(file, flags)
    except (OSError, ValueError):
        return None
    try:
        # Asked of the descriptor before Python makes a file of it, which it refuses to do of a folder.
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as opened, suppress(OSError):
            return opened.read(MAX_IGNORE_BYTES)
        return None
    finally:
        os.close(descriptor)


def _git_settings(top: Path) -> tuple[Path | None, bool, Path | None]:
    """The user's file of rules, whether case is ignored, and the repository's own file of rules.

    Git is asked: its settings come from several files that include each other.
    """
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path("~/.config").expanduser())
    excludes_file: Path | None = Path(home) / "git" / "ignore"
    ignore_case = False
    for key, value in _git_config(top):
        if key == "core.excludesfile":
            excludes_file = Path(value).expanduser() if value else None
        elif key == "core.ignorecase":
            ignore_case = value.lower() in ("true", "yes", "on", "1", "")
    return excludes_file, ignore_case, _info_exclude(top)


def _git_config(top: Path) -> list[tuple[str, str]]:
    done = _git(top, "config", "-z", "--get-regexp", r"^core\.(excludesfile|ignorecase)$")
    pairs = (line.partition("\n") for line in done.decode("utf-8", "surrogateescape").split("\0") if line)
    return [(key, value) for key, _, value in pairs]


def _info_exclude(top: Path) -> Path | None:
    folder = top / ".git"
    if folder.is_dir():
        return folder / "info" / "exclude"
    # A worktree or a submodule: `.git` is a file that says where the repository is.
    found = _git(top, "rev-parse", "--git-path", "info/exclude").decode("utf-8", "surrogateescape").strip()
    return top / found if found else None


def tracked_though_ignored(top: Path) -> list[bytes]:
    """Files in git's index that a rule matches: git does not ignore those."""
    found = _git(top, "ls-files", "-z", "--cached", "--ignored", "--exclude-standard")
    return [path for path in found.split(b"\0") if path]


def _git(folder: Path, *arguments: str) -> bytes:
    """What git says; nothing when there is no git, or it refuses."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
            env=git_environment(),
        )
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return done.stdout if done.returncode == 0 else b""
