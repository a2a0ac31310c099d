"""When files were last changed by a commit: git is asked for the few files of an answer, never by the index.

`git log` over ten files took 22 ms of CPU in a history of 487 commits, more than a whole question may take,
and it grows with the history. So it is for whoever asks for it, and ends at a deadline.
"""

import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from weft.memory.git_environment import git_environment

LIMIT_SECONDS = 2.0
"""Files whose last commit lies further back than can be read in this time have none."""


def commit_times(root: Path, paths: Sequence[str], seconds: float = LIMIT_SECONDS) -> dict[str, float]:
    """When the last commit changed each path, in seconds since the epoch; of those that have one."""
    command = [
        "git",
        "--no-pager",
        "-C",
        str(root),
        "log",
        "--no-ext-diff",
        "--no-textconv",
        "--format=%x01%ct",
        "--name-only",
        "--relative",
        "-z",
        "--",
        *paths,
    ]
    environment = {**git_environment(), "GIT_LITERAL_PATHSPECS": "1"}
    try:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            env=environment,
        )
    except OSError:  # there is no git
        return {}
    ending = threading.Timer(seconds, process.kill)
    ending.start()
    try:
        with process:
            output = process.stdout.read() if process.stdout is not None else b""
    finally:
        ending.cancel()
    return _first_times(output, set(paths))


def _first_times(output: bytes, wanted: set[str]) -> dict[str, float]:
    """Commits come the latest first, each with its time and the paths it changed."""
    found: dict[str, float] = {}
    for commit in output.split(b"\x01")[1:]:
        time, *changed = commit.replace(b"\n", b"\0").split(b"\0")
        for path in map(os.fsdecode, changed):
            if path in wanted and time.isdigit():
                found.setdefault(path, float(time))
    return found
