"""Runs git in an environment that ignores executables named in a repository's configuration.

A repository may be untrusted, and its configuration can name executables and remote addresses. None of them
is used here, and git always uses the repository of the folder.

`git log` over ten files took 22 ms of CPU in a history of 487 commits, more than a whole search may take, and
the time grows with the history. So it runs only on request, with a deadline.
"""

import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from weft.process.group import run_captured

LOCAL_VARIABLES = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_CONFIG",
        "GIT_CONFIG_COUNT",
        "GIT_CONFIG_PARAMETERS",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)
"""The variables listed by `git rev-parse --local-env-vars`. Git sets them for its hooks."""


_SETTINGS = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.sshCommand", "false"),
    ("log.showSignature", "false"),
    ("protocol.allow", "never"),
    ("safe.bareRepository", "explicit"),
)
"""These override the repository's settings. External diff commands are turned off by options of `diff`."""

_NO_TRANSPORT = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
"""Variables that keep git from contacting a remote, where it would fetch the missing objects of a partial
clone. Git before 2.45 does not know `GIT_NO_LAZY_FETCH`, but is allowed no protocol."""

_EXECUTABLE_SETTINGS = (
    r"^(filter\..*\.(clean|smudge|process)|diff\..*\.(command|textconv)|diff\.external|gpg\..*|hook\..*)$"
)
_PLAIN_DIFF = 'f() { git diff --no-ext-diff --no-textconv --no-index -- "$2" "$5"; return 0; }; f'
"""Runs in place of an external diff command: git itself, with the names of both files."""

_GITLINK = "160000"
"""The mode of a submodule in the index."""

_TIMEOUT_SECONDS = 60


def git_environment(more: Iterable[tuple[str, str]] = ()) -> dict[str, str]:
    """Return this process's environment, changed so that only the folder determines the repository.

    `more` are further settings that override those of the repository.
    """
    kept = {name: value for name, value in os.environ.items() if name not in LOCAL_VARIABLES}
    return {**kept, **git_variables(more)}


def git_variables(more: Iterable[tuple[str, str]] = ()) -> dict[str, str]:
    """Return the variables that keep git from running executables named by a repository."""
    settings = [*_SETTINGS, *more]
    variables = {**_NO_TRANSPORT, "GIT_CONFIG_COUNT": str(len(settings))}
    for number, (name, value) in enumerate(settings):
        variables |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


def disable_repository_commands(folder: Path) -> list[tuple[str, str]]:
    """Return settings that turn off the executables named by the repository and its submodules.

    Needed where git writes, or where others choose its options: git then runs filters, diff commands and
    signing commands, and looks for changes in submodules, which have their own settings. Executables from the
    user's own configuration stay enabled.
    """
    own = [name for repository in _with_submodules(folder) for name in _find_executable_settings(repository)]
    off: dict[str, str] = {}
    for name in own:
        section, _, key = name.rpartition(".")
        if section.startswith("filter."):
            off |= {f"{section}.{part}": "" for part in ("clean", "smudge", "process")}
            off[f"{section}.required"] = "false"
        elif section.startswith("hook."):
            off[f"{section}.enabled"] = "false"
        elif section.startswith("gpg"):
            off |= {"commit.gpgSign": "false", "tag.gpgSign": "false"}
        else:
            off[name] = "cat" if key == "textconv" else _PLAIN_DIFF
    return list(off.items())


def _find_executable_settings(folder: Path) -> list[str]:
    """Return the names of the repository's own settings that name executables."""
    options = ("-z", "--includes", "--show-scope", "--name-only")
    fields = git_text(folder, "config", *options, "--get-regexp", _EXECUTABLE_SETTINGS).split("\0")
    return [
        name for scope, name in zip(fields[::2], fields[1::2], strict=False) if scope in ("local", "worktree")
    ]


def _with_submodules(folder: Path) -> Iterable[Path]:
    """Return the repository and its submodules, including nested ones."""
    found: dict[Path, None] = {}
    left = [folder]
    while left:
        top = Path(git_text(left.pop(), "rev-parse", "--show-toplevel").removesuffix("\n"))
        if top.is_absolute() and top not in found:  # links could form a cycle
            found[top] = None
            staged = git_text(top, "ls-files", "-z", "--stage").split("\0")
            links = (entry.partition("\t")[2] for entry in staged if entry.startswith(_GITLINK))
            left += [top / link for link in links if (top / link / ".git").exists()]
    return found or [folder]


def run_git(
    folder: Path, *arguments: str, timeout_seconds: float, **variables: str
) -> "subprocess.CompletedProcess[bytes]":
    """Run git in a folder, without executables that the repository configures.

    Raise OSError if git is not installed, and TimeoutExpired with the output so far.
    """
    argv = ["git", "-C", str(folder), *arguments]
    return run_captured(argv, env={**git_environment(), **variables}, timeout_seconds=timeout_seconds)


def git_output(folder: Path, *arguments: str, seconds: float = _TIMEOUT_SECONDS) -> bytes:
    """Return the output of git; empty if git is not installed, incomplete if it fails or after `seconds`."""
    try:
        return run_git(folder, *arguments, timeout_seconds=seconds, GIT_LITERAL_PATHSPECS="1").stdout
    except subprocess.TimeoutExpired as error:
        return error.stdout or b""
    except OSError:
        return b""


def git_text(folder: Path, *arguments: str) -> str:
    return git_output(folder, *arguments).decode("utf-8", "surrogateescape")


LIMIT_SECONDS = 2.0
"""Time limit of `git log`; files whose last commit it has not reached by then are left out."""


def commit_times(root: Path, paths: Sequence[str], seconds: float = LIMIT_SECONDS) -> dict[str, float]:
    """Return the time of the last commit of each path, in seconds since the epoch.

    Paths without a commit, or with one that git did not reach within `seconds`, are left out.
    """
    options = ("--no-ext-diff", "--no-textconv", "--format=%x01%ct", "--name-only", "--relative", "-z")
    return _latest_times(git_output(root, "log", *options, "--", *paths, seconds=seconds), set(paths))


def _latest_times(output: bytes, wanted: set[str]) -> dict[str, float]:
    # Commits are ordered latest first, each with its time and the paths that it changed.
    found: dict[str, float] = {}
    for commit in output.split(b"\x01")[1:]:
        time, *changed = commit.replace(b"\n", b"\0").split(b"\0")
        for path in map(os.fsdecode, changed):
            if path in wanted and time.isdigit():
                found.setdefault(path, float(time))
    return found
