"""Run aider without a terminal, one at a time per work tree."""

import asyncio
import contextlib
import errno
import fcntl
import os
import tempfile
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from weft.aio import run_blocking
from weft.config.sections import CommandSettings, ExecutorSettings
from weft.errors import MissingExtra, RequestError
from weft.executors.command import environment_for
from weft.executors.protocol import ExecutionFailed, Work
from weft.integrations.aider.changes import GitFailed, GitLook, WorktreeSnapshot, first_look, repository_of
from weft.integrations.aider.command_line import Scratch, argv_of, automatic_leash, variables_of
from weft.integrations.aider.install import AiderProgram, Say, ready_aider
from weft.integrations.aider.models import AiderModels
from weft.integrations.aider.report import result_of
from weft.integrations.aider.request import AiderInputs, AiderModel, AiderRequest, AiderResult
from weft.integrations.aider.terminal import run_interactive, terminal_of_person
from weft.llm.errors import ModelError
from weft.process.group import ProcessGroup
from weft.secrets.truncation import cut
from weft.tools.roots import Roots

LOOK_SECONDS = 0.1
"""How often somebody who waits for a work tree looks whether it is free."""


@asynccontextmanager
async def sole_use(folder: Path) -> AsyncIterator[None]:
    """Hold a work tree, or a folder that is in none, for the block; others wait, in other processes too.

    The lock is on the folder itself: no file is left behind, and the kernel lets go of it when we die.
    """
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        while not _is_ours(held):  # noqa: ASYNC110 - another process may hold it, and tells nobody
            await asyncio.sleep(LOOK_SECONDS)
        yield
    finally:
        os.close(held)


def _is_ours(held: int) -> bool:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # A file system that has no such locks must not keep anybody from working.
        return error.errno not in (errno.EWOULDBLOCK, errno.EINTR)
    return True


MAX_OUTPUT_BYTES = 100_000
"""Of what it prints; the transcript has all that matters of it."""

MAX_SAID_LINES = 8


async def run_automatic(
    request: AiderRequest,
    program: AiderProgram,
    scratch: Scratch,
    look: WorktreeSnapshot,
    *,
    is_git: bool,
    commands: CommandSettings,
    work: Work,
) -> AiderResult:
    """What aider did; raises ExecutionFailed with it when the model did not answer, or it took too long."""
    scratch.fill(request, automatic_leash(request.roots, scratch.folder, request.kept_files))
    argv = argv_of(program, request, scratch, is_git=is_git)
    started = time.monotonic()
    group = _start(argv, request, scratch, commands, work)
    code = None
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(request.timeout_seconds):
                code = await group.wait()
    finally:
        await group.end(commands.grace_seconds)
    changed = await run_blocking(look.changed, name="weft-aider")
    result = result_of("automatic", request, scratch, changed, code, started)
    _check(result, request, group)
    return result


def _start(
    argv: list[str], request: AiderRequest, scratch: Scratch, commands: CommandSettings, work: Work
) -> ProcessGroup:
    try:
        return ProcessGroup.start(
            argv,
            executable=argv[0],
            # Not the command executor's rules for LD_*: a task does not choose these variables.
            env=environment_for(work, variables_of(request, scratch), CommandSettings()),
            cwd=str(request.folder),
            stdin=None,
            max_output_bytes=MAX_OUTPUT_BYTES,
        )
    except OSError as error:
        raise ExecutionFailed(f"aider cannot be started: {error.strerror or error}") from error


def _check(result: AiderResult, request: AiderRequest, group: ProcessGroup) -> None:
    """Raise ExecutionFailed if aider did not come to its end; it exits with 0 when its model fails, too."""
    said = _last_lines(group.stderr.last_text or group.stdout.last_text)
    if result.exit_code is None:
        message = f"aider did not end within {request.timeout_seconds:g} s"
    elif result.exit_code != 0:
        message = f"aider exited with code {result.exit_code}: {said}"
    elif result.usage.answers == 0:
        message = f"the model did not answer aider: {said}"
    else:
        return
    raise ExecutionFailed(message, details=result.as_json())


def _last_lines(text: str) -> str:
    """Where a program says what went wrong: of a traceback the end, of a token limit all that was counted."""
    lines = [line for line in text.splitlines() if line.strip()]
    return cut("\n".join(lines[-MAX_SAID_LINES:]), 1000)


NAME = "aider"
"""As a list of allowed programs has it."""


class AiderRunner:
    """Runs aider in the folders of a project, with its models; each run in a process group of its own."""

    def __init__(
        self,
        settings: ExecutorSettings,
        roots: Sequence[str | Path],
        models: AiderModels,
        *,
        say: Say,
        environment: Mapping[str, str] = os.environ,
        kept_files: Collection[str] = (),
    ) -> None:
        """`say` tells a person that aider is being installed; `kept_files` are never written."""
        self._settings = settings
        self._roots = Roots(roots, kept_files=kept_files)
        self._kept_files = tuple(kept_files)
        self._models = models
        self._say = say
        self._environment = environment

    async def run(self, inputs: AiderInputs, work: Work) -> AiderResult:
        """What aider did; raises ExecutionFailed."""
        if inputs.mode == "interactive":
            terminal_of_person()  # before anything is installed or loaded
        self._check_allowed()
        folder, files = self._places(inputs)
        async with AsyncExitStack() as stack:
            program = await ready_aider(self._settings.aider, self._environment, self._say)
            try:
                model = await stack.enter_async_context(self._models.opened(inputs.model, inputs.provider))
            except (ModelError, MissingExtra) as error:
                raise ExecutionFailed(f"aider has no model: {error.message}", is_permanent=True) from error
            scratch = Scratch(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weft-aider-"))))
            request = self._request(inputs, folder, files, model)
            tree = await run_blocking(lambda: repository_of(folder), name="weft-aider")
            await stack.enter_async_context(sole_use(tree or folder))
            try:
                look = await run_blocking(
                    lambda: first_look(folder, files, scratch.folder), name="weft-aider"
                )
                is_git = isinstance(look, GitLook)
                if inputs.mode == "interactive":
                    return await run_interactive(request, program, scratch, look, is_git=is_git, work=work)
                commands = self._settings.command
                return await run_automatic(
                    request, program, scratch, look, is_git=is_git, commands=commands, work=work
                )
            except GitFailed as error:
                raise ExecutionFailed(f"the repository of {folder} cannot be read: {error}") from error

    def refusal_of(self, path: str) -> str | None:
        """Why a file, relative to the first root, may not be edited; None: it may."""
        try:
            self._roots.place(path)
        except RequestError as error:
            return error.message
        return None

    def _check_allowed(self) -> None:
        """A list of allowed programs holds for aider, too."""
        allow = self._settings.command.allow
        if allow is not None and NAME not in allow:
            listed = ", ".join(allow) or "nothing"
            raise ExecutionFailed(
                f"program 'aider' may not run; [executors.command] allow in weft.toml has {listed}",
                is_permanent=True,
            )

    def _places(self, inputs: AiderInputs) -> tuple[Path, tuple[Path, ...]]:
        """The folder and the files, absolute; fails for good when one of them is not inside the roots."""
        try:
            folder = self._roots.place(inputs.folder)
            if not folder.is_dir():
                raise ExecutionFailed(f"there is no folder '{inputs.folder}'", is_permanent=True)
            files = [
                self._roots.place(file if file.startswith("/") else f"{folder}/{file}")
                for file in dict.fromkeys(inputs.files)
            ]
        except RequestError as error:
            raise ExecutionFailed(error.message, is_permanent=True) from error
        return folder, tuple(files)

    def _request(
        self, inputs: AiderInputs, folder: Path, files: tuple[Path, ...], model: AiderModel
    ) -> AiderRequest:
        settings = self._settings.aider
        is_automatic = inputs.mode == "automatic"
        return AiderRequest(
            prompt=inputs.prompt,
            files=files,
            folder=folder,
            roots=self._roots.folders,
            kept_files=self._kept_files,
            model=model,
            auto_commits=settings.auto_commits if inputs.auto_commits is None else inputs.auto_commits,
            edit_format=inputs.edit_format or settings.edit_format,
            map_tokens=settings.map_tokens,
            timeout_seconds=inputs.timeout_seconds or (settings.timeout_seconds if is_automatic else None),
        )
