"""Which programs the `command` executor may run, and with what environment."""

import os
import shutil
from collections.abc import Mapping

from weft.executor_settings import CommandSettings
from weft.executors.protocol import ExecutionFailed, Work

SHELL = "/bin/sh"

_PASSED_ON = (
    *("PATH", "HOME", "LANG", "LC_*", "TZ", "TMPDIR", "VIRTUAL_ENV"),
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH"),
)
"""What a command gets of weft's own environment. Not the rest: keys and tokens live there. Git sets its own
for hooks: without them a hook's commands look at another index than the commit that is being made."""

_LOADER_PREFIXES = ("LD_", "DYLD_")


def find_program(name: str, settings: CommandSettings, environment: Mapping[str, str]) -> str:
    """The file to execute for `argv[0]`; a program that is not allowed or not there fails the task for good.

    With an allow-list, names are looked up in weft's own PATH: a task that sets PATH does not choose what
    `git` is. Paths are compared as they are written: where one file has many names (busybox), following
    links would allow them all.
    """
    if settings.allow is None:
        return _located(name, environment.get("PATH", os.defpath))
    own_path = os.environ.get("PATH", os.defpath)
    places = {shutil.which(entry, path=own_path) for entry in settings.allow}
    place = shutil.which(name, path=own_path)
    if name not in settings.allow and (place is None or place not in places):
        listed = ", ".join(settings.allow) or "nothing"
        raise ExecutionFailed(
            f"program '{name}' may not run; [executors.command] allow in weft.toml has {listed}",
            is_permanent=True,
        )
    return _located(name, own_path)


def find_shell(settings: CommandSettings) -> str:
    """The shell; fails the task for good when it is not allowed."""
    if settings.is_shell_allowed:
        return SHELL
    reason = "is off" if settings.allow_shell is False else "is off while there is a list of allowed programs"
    raise ExecutionFailed(
        f"'shell' {reason}; give the program and its arguments as 'argv', "
        "or set [executors.command] allow_shell = true in weft.toml",
        is_permanent=True,
    )


def environment_for(work: Work, added: Mapping[str, str], settings: CommandSettings) -> dict[str, str]:
    """The environment of a program: little of ours, what the task adds, and which attempt this is."""
    if settings.allow is not None:
        for name in added:
            if name.startswith(_LOADER_PREFIXES):
                raise ExecutionFailed(
                    f"'env' may not set {name} while there is a list of allowed programs: "
                    "it can make one program do another's work",
                    is_permanent=True,
                )
    allowed = (*_PASSED_ON, *settings.environment)
    names = {name for name in allowed if not name.endswith("*")}
    beginnings = tuple(name[:-1] for name in allowed if name.endswith("*"))
    passed_on = {
        name: value for name, value in os.environ.items() if name in names or name.startswith(beginnings)
    }
    return {**passed_on, **added, "WEFT_TASK_ID": work.task.id, "WEFT_ATTEMPT": str(work.attempt)}


def _located(name: str, path: str) -> str:
    if "/" in name:
        return name
    found = shutil.which(name, path=path)
    if found is None:
        raise ExecutionFailed(f"program '{name}' was not found in PATH", is_permanent=True)
    # Absolute: a relative entry of PATH means a folder of ours, not of the folder the program runs in.
    return os.path.abspath(found)  # noqa: PTH100 - Path.resolve would follow links
