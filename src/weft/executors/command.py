"""`command`: runs an executable and returns its output."""

import asyncio
import errno
import itertools
import logging
import os
import shlex
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType, field

from weft.config.sections import CommandSettings
from weft.executors.protocol import (
    DEFAULT_CANCEL_GRACE_SECONDS,
    ExecutionFailed,
    Inputs,
    Work,
    permanent_failure,
    read_inputs,
    result_schema,
    schema_of,
)
from weft.limits import Backoff, NulFree
from weft.process.group import KILL_SECONDS, CapturedGroup
from weft.secrets.registry import redact
from weft.tasks.record import ExecutorType, JsonObject

SHELL = "/bin/sh"

_INHERITED_VARIABLES = (
    *("PATH", "HOME", "LANG", "LC_*", "TZ", "TMPDIR", "VIRTUAL_ENV"),
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH"),
)
"""Variables of weft's environment that a process inherits. Others may contain keys and tokens. Git sets its
variables for hooks: without them the commands of a hook would use another index than the commit in
progress."""

_LOADER_PREFIXES = ("LD_", "DYLD_")
"""Prefixes of variables that make the dynamic loader load other libraries."""


def find_executable(name: str, settings: CommandSettings, environment: Mapping[str, str]) -> str:
    """Return the file to execute for `argv[0]`. Raise ExecutionFailed if it is missing or not allowed.

    With an allow-list, names are looked up in weft's own PATH, so that a task cannot choose another `git` by
    setting PATH. Paths are compared without following links: otherwise, allowing one link to busybox would
    allow all of them.
    """
    if settings.allow is None:
        return _locate(name, environment.get("PATH", os.defpath))
    own_path = os.environ.get("PATH", os.defpath)
    allowed = {shutil.which(entry, path=own_path) for entry in settings.allow}
    found = shutil.which(name, path=own_path)
    if name not in settings.allow and (found is None or found not in allowed):
        raise not_allowed(name, settings.allow)
    return _locate(name, own_path)


def not_allowed(name: str, allow: Sequence[str]) -> ExecutionFailed:
    """Return the failure of an executable that is not in the list of allowed ones."""
    return permanent_failure(
        f"executable '{name}' may not run: it is not in [executors.command] allow in weft.toml, "
        f"which has {', '.join(allow) or 'nothing'}"
    )


def find_shell(settings: CommandSettings) -> str:
    if settings.is_shell_allowed:
        return SHELL
    reason = (
        "is off" if settings.allow_shell is False else "is off while there is a list of allowed executables"
    )
    raise permanent_failure(
        f"'shell' {reason}; give the executable and its arguments as 'argv', "
        "or set [executors.command] allow_shell = true in weft.toml"
    )


def environment_for(work: Work, added: Mapping[str, str], settings: CommandSettings) -> dict[str, str]:
    """Return the environment of a process: inherited variables, `added`, WEFT_TASK_ID and WEFT_ATTEMPT.

    Raise ExecutionFailed if `added` could load other code into an executable of the allow-list.
    """
    if settings.allow is not None:
        for name in added:
            if name.startswith(_LOADER_PREFIXES):
                raise permanent_failure(
                    f"'env' may not set {name} while there is a list of allowed executables: "
                    "it can load other code into an allowed executable"
                )
    allowed = (*_INHERITED_VARIABLES, *settings.environment)
    names = {name for name in allowed if not name.endswith("*")}
    prefixes = tuple(name[:-1] for name in allowed if name.endswith("*"))
    inherited = {
        name: value for name, value in os.environ.items() if name in names or name.startswith(prefixes)
    }
    return {**inherited, **added, "WEFT_TASK_ID": work.task.id, "WEFT_ATTEMPT": str(work.attempt)}


def _locate(name: str, path: str) -> str:
    if "/" in name:
        return name
    found = shutil.which(name, path=path)
    if found is None:
        raise permanent_failure(f"executable '{name}' was not found in PATH")
    # Absolute, because a relative entry of PATH is relative to weft's working folder, not to the task's.
    return os.path.abspath(found)  # noqa: PTH100 - Path.resolve would follow links


DEFAULT_OUTPUT_BYTES = 10 * 1024 * 1024

UNLEASED_GRACE_SECONDS = 0.5
"""Grace period of scripts once this worker may have lost its lease. A quarter of the lease is left then:
0.75 s of a lease of three seconds."""

_TRANSIENT = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY})
"""Error numbers of a failed start that may succeed in a further attempt."""

_NO_FILES = frozenset({errno.EMFILE, errno.ENFILE})
"""Error numbers that mean: no file descriptors are left. Running scripts release theirs when they end."""

START_BACKOFF = Backoff(delay=0.05, factor=1.0, cap=0.05)
"""Before a start is retried while no file descriptors are left."""


log = logging.getLogger(__name__)


class CommandInputs(Inputs, frozen=True, kw_only=True):
    argv: (
        Annotated[list[NulFree], Meta(min_length=1, description="The executable and its arguments.")]
        | UnsetType
    ) = UNSET
    shell: Annotated[bool, Meta(description="Run `command` with /bin/sh.")] = False
    command: Annotated[NulFree, Meta(description="A line for the shell; requires `shell`.")] | UnsetType = (
        UNSET
    )
    cwd: (
        Annotated[NulFree, Meta(description="The folder to run in, inside the roots; default: weft's own.")]
        | None
    ) = None
    env: Annotated[
        dict[str, NulFree],
        Meta(description="Variables to add to PATH, HOME, LANG, LC_*, TZ, TMPDIR and VIRTUAL_ENV."),
    ] = field(default_factory=dict)
    stdin: Annotated[str, Meta(description="Text for standard input; default: empty.")] | None = None
    timeout_seconds: Annotated[float, Meta(gt=0, description="Time limit in seconds.")] | None = None
    max_output_bytes: Annotated[
        int,
        Meta(
            ge=0,
            description="Maximum size of stdout and of stderr as stored, in bytes; more is truncated.",
        ),
    ] = DEFAULT_OUTPUT_BYTES
    check: Annotated[bool, Meta(description="Fail the task if the exit code is not 0.")] = True


_ARGV_OR_COMMAND: JsonObject = {
    "if": {"required": ["shell"], "properties": {"shell": {"const": True}}},
    "then": {"required": ["command"], "properties": {"argv": False}},
    "else": {"required": ["argv"], "properties": {"command": False}},
}


class Command:
    """Runs executables, each in a process group that is ended with the task."""

    id = "command"
    type = ExecutorType.LOCAL
    summary = "Runs an executable; returns stdout, stderr and the exit code."
    input_schema = schema_of(CommandInputs, **_ARGV_OR_COMMAND)
    output_schema = result_schema(
        stdout="string",
        stderr="string",
        exit_code="integer",
        duration_seconds="number",
        stdout_truncated="boolean",
        stderr_truncated="boolean",
    )
    uses_dependencies = False

    def __init__(self, settings: CommandSettings, roots: Sequence[str] | None = None) -> None:
        """Accept only folders inside `roots` as `cwd`; None accepts any folder, if the caller chose it."""
        self.settings = settings
        self._roots = roots
        self._running = 0
        self._has_warned = False

    @property
    def cancel_grace_seconds(self) -> float:
        return self.settings.grace_seconds + KILL_SECONDS + DEFAULT_CANCEL_GRACE_SECONDS

    def _grace_seconds(self, work: Work) -> float:
        """Return the grace period; short after a lost lease, as another worker may run the script again."""
        seconds = self.settings.grace_seconds
        return seconds if work.has_lease() else min(seconds, UNLEASED_GRACE_SECONDS)

    async def execute(self, work: Work) -> JsonObject:
        inputs = read_inputs(CommandInputs, work.inputs)
        started = time.monotonic()
        group = await self._start_when_possible(inputs, work)
        self._running += 1
        try:
            exit_code = await group.finish(inputs.timeout_seconds, lambda: self._grace_seconds(work))
        finally:
            self._running -= 1
        result = _result(group, exit_code, started)
        if exit_code is None:
            limit = f"{inputs.timeout_seconds:g} s"
            raise ExecutionFailed(f"{_shown(inputs)} did not end within {limit}", details=result)
        if inputs.check and exit_code != 0:
            raise ExecutionFailed(_failure(inputs, exit_code, group), details=result)
        return result

    async def _start_when_possible(self, inputs: CommandInputs, work: Work) -> CapturedGroup:
        """Start the script; if no file descriptor is left, retry while other scripts of this process run."""
        deadline = inf if inputs.timeout_seconds is None else time.monotonic() + inputs.timeout_seconds
        for failures in itertools.count(1):
            try:
                return self._start(inputs, work)
            except ExecutionFailed as error:
                cause = error.__cause__
                has_files = not isinstance(cause, OSError) or cause.errno not in _NO_FILES
                if has_files or not self._running or time.monotonic() >= deadline:
                    raise
                if not self._has_warned:
                    self._has_warned = True
                    log.warning(
                        "%s: such tasks wait until other processes have ended",
                        error.message,
                        extra={"action": "command_waits", "task_id": work.task.id},
                    )
            await asyncio.sleep(START_BACKOFF.delay_after(failures))
        raise AssertionError("the loop returns or raises")

    def _folder(self, inputs: CommandInputs) -> str | None:
        """Return the folder to run in, or None for weft's own. Raise ExecutionFailed if it is outside."""
        if inputs.cwd is None or self._roots is None:
            return inputs.cwd
        folder = Path(inputs.cwd).resolve()
        if any(folder.is_relative_to(Path(root).resolve()) for root in self._roots):
            return str(folder)
        raise permanent_failure(
            f"cwd '{inputs.cwd}' is outside of the roots: use a folder inside them, or add it to [tools] "
            "roots in the weft.toml of the worker"
        )

    def _start(self, inputs: CommandInputs, work: Work) -> CapturedGroup:
        folder = self._folder(inputs)
        environment = environment_for(work, inputs.env, self.settings)
        if inputs.shell:
            if inputs.command is UNSET or inputs.argv is not UNSET:
                raise permanent_failure("'shell' needs 'command' and no 'argv'")
            executable = find_shell(self.settings)
            argv = [executable, "-c", inputs.command]
        else:
            if inputs.argv is UNSET or inputs.command is not UNSET:
                raise permanent_failure("'argv' is missing; 'command' needs 'shell'")
            argv = inputs.argv
            executable = find_executable(argv[0], self.settings, environment)
        _refuse_secrets(argv, inputs)
        try:
            return CapturedGroup(
                argv,
                executable=executable,
                env=environment,
                cwd=folder,
                stdin=None if inputs.stdin is None else inputs.stdin.encode(),
                max_output_bytes=inputs.max_output_bytes,
            )
        except OSError as error:
            raise ExecutionFailed(
                f"{_shown(inputs)} cannot be started: {_reason(error, inputs)}",
                is_permanent=error.errno not in _TRANSIENT,
            ) from error
        except ValueError as error:
            # A variable's name with "=", or a lone surrogate: a retry cannot help.
            raise permanent_failure(f"{_shown(inputs)} cannot be started: {error}") from error


def _result(group: CapturedGroup, exit_code: int | None, started: float) -> JsonObject:
    return {
        "stdout": group.stdout.text,
        "stderr": group.stderr.text,
        "exit_code": exit_code,
        "duration_seconds": round(time.monotonic() - started, 6),
        "stdout_truncated": group.stdout.is_cut,
        "stderr_truncated": group.stderr.is_cut,
    }


def _failure(inputs: CommandInputs, exit_code: int, group: CapturedGroup) -> str:
    ended = f"exited with code {exit_code}" if exit_code > 0 else f"was ended by {_signal_name(-exit_code)}"
    stderr = group.stderr.last_text
    return f"{_shown(inputs)} {ended}{': ' + stderr if stderr else ''}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _reason(error: OSError, inputs: CommandInputs) -> str:
    if inputs.cwd is not None and not os.path.isdir(inputs.cwd):  # noqa: PTH112 - Path() of it may raise
        return f"there is no folder '{inputs.cwd}'"
    return error.strerror or str(error)


def _refuse_secrets(argv: Sequence[str], inputs: CommandInputs) -> None:
    """Raise ExecutionFailed if an argument has a secret: other users of the machine can read arguments."""
    if any(redact(argument) != argument for argument in argv):
        raise permanent_failure(
            f"{_shown(inputs)}: a secret may not be an argument, as other users of the machine can read "
            "arguments (ps); pass it in 'env' or 'stdin'"
        )


def _shown(inputs: CommandInputs) -> str:
    """Return the executable for messages, without its arguments, which may be confidential."""
    if inputs.shell:
        return "the shell command"
    return shlex.quote(inputs.argv[0]) if inputs.argv else "the command"
