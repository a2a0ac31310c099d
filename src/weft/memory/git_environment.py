"""The environment of every git command that weft runs.

A repository may come from a stranger, and its own configuration can name programs and addresses. Nothing of
that is started here, and nothing leads git to another repository than that of the folder.
"""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

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
"""What `git rev-parse --local-env-vars` names. Git sets them for its hooks."""


_SETTINGS = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.sshCommand", "false"),
    ("log.showSignature", "false"),
    ("protocol.allow", "never"),
    ("safe.bareRepository", "explicit"),
)
"""They win over what the repository says. Programs that compare files are turned off by options of `diff`."""

_NO_TRANSPORT = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
"""In a partial clone git fetches objects that it misses, from where the configuration says. Git before 2.45
knows no `GIT_NO_LAZY_FETCH`, but finds no protocol that is allowed."""

_NAMES_PROGRAMS = r"^(filter\..*\.(clean|smudge|process)|gpg\..*)$"
_SECONDS = 60


def git_environment(more: Iterable[tuple[str, str]] = ()) -> dict[str, str]:
    """Return our own environment, in which the folder alone says which repository is meant.

    `more` are further settings that win over those of the repository.
    """
    kept = {name: value for name, value in os.environ.items() if name not in LOCAL_VARIABLES}
    return {**kept, **git_variables(more)}


def git_variables(more: Iterable[tuple[str, str]] = ()) -> dict[str, str]:
    """Return the variables that keep git from starting what a repository names."""
    settings = [*_SETTINGS, *more]
    variables = {**_NO_TRANSPORT, "GIT_CONFIG_COUNT": str(len(settings))}
    for number, (name, value) in enumerate(settings):
        variables |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


def without_own_programs(folder: Path) -> list[tuple[str, str]]:
    """Return settings that turn off the filters and signing programs that the repository itself names.

    Needed where git writes: it passes files through filters, and commits to a program that signs them. Those
    of the user's own configuration stay.
    """
    command = ["git", "-C", str(folder), "config", "-z", "--includes", "--show-scope", "--name-only"]
    try:
        done = subprocess.run(
            [*command, "--get-regexp", _NAMES_PROGRAMS],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
            env=git_environment(),
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    fields = done.stdout.decode("utf-8", "surrogateescape").split("\0")
    own = {
        name for scope, name in zip(fields[::2], fields[1::2], strict=False) if scope in ("local", "worktree")
    }
    filters = dict.fromkeys(name.rpartition(".")[0] for name in sorted(own) if name.startswith("filter."))
    off = [(f"{name}.{part}", "") for name in filters for part in ("clean", "smudge", "process")]
    off += [(f"{name}.required", "false") for name in filters]
    if any(name.startswith("gpg.") for name in own):
        off += [("commit.gpgSign", "false"), ("tag.gpgSign", "false")]
    return off
