"""Runs aider, one process at a time per work tree, and reads its logs."""

import os
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
from msgspec import Struct

from weft.aio import run_blocking
from weft.config.sections import CommandSettings, ExecutorSettings
from weft.errors import MissingExtra, RequestError
from weft.executors.command import environment_for, not_allowed
from weft.executors.protocol import ExecutionFailed, Work, permanent_failure
from weft.integrations.aider.changes import (
    Changed,
    FileSnapshot,
    GitFailed,
    GitSnapshot,
    WorktreeSnapshot,
    repository_of,
)
from weft.integrations.aider.command_line import Scratch, argv_of, variables_of
from weft.integrations.aider.install import Say, lock_folder, ready_aider
from weft.integrations.aider.models import AiderModels
from weft.integrations.aider.request import AiderInputs, AiderModel, AiderRequest, AiderResult, AiderUsage
from weft.integrations.aider.terminal import require_terminal, run_in_terminal
from weft.llm.errors import ModelError
from weft.process.group import CapturedGroup
from weft.secrets.truncation import cut, cut_middle
from weft.tools.roots import Roots

MAX_OUTPUT_BYTES = 100_000
"""Most bytes of output that are kept; the transcript has everything important."""

MAX_OUTPUT_LINES = 8

NAME = "aider"
"""The name of aider in the list of allowed executables."""


class AiderRunner:
    """Runs aider in the folders of a project, with its models; each run has its own process group."""

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
        """Create the runner. `say` gets messages about the installation; `kept_files` are never written."""
        self._settings = settings
        self._roots = Roots(roots, kept_files=kept_files)
        self._kept_files = tuple(kept_files)
        self._models = models
        self._say = say
        self._environment = environment

    async def run(self, inputs: AiderInputs, work: Work) -> AiderResult:
        """Run aider and return its result; raise ExecutionFailed."""
        if inputs.mode == "interactive":
            require_terminal()  # before anything is installed or loaded
        allow = self._settings.command.allow
        if allow is not None and NAME not in allow:
            raise not_allowed(NAME, allow)
        folder, files = self._resolve_paths(inputs)
        async with AsyncExitStack() as stack:
            program = await ready_aider(self._settings.aider, self._environment, self._say)
            try:
                model = await stack.enter_async_context(self._models.opened(inputs.model, inputs.provider))
            except (ModelError, MissingExtra) as error:
                raise permanent_failure(f"aider has no model: {error.message}") from error
            scratch = Scratch(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weft-aider-"))))
            request = self._request(inputs, folder, files, model)
            tree = await run_blocking(lambda: repository_of(folder), name="weft-aider")
            await stack.enter_async_context(lock_folder(tree or folder))
            try:
                snapshot: WorktreeSnapshot = await run_blocking(
                    lambda: GitSnapshot(tree, files, scratch.folder) if tree else FileSnapshot(folder, files),
                    name="weft-aider",
                )
                argv = argv_of(program, request, scratch, is_git=tree is not None)
                return await self._run(request, argv, scratch, snapshot, work)
            except GitFailed as error:
                raise ExecutionFailed(f"the repository of {folder} cannot be read: {error}") from error

    async def _run(
        self,
        request: AiderRequest,
        argv: list[str],
        scratch: Scratch,
        snapshot: WorktreeSnapshot,
        work: Work,
    ) -> AiderResult:
        scratch.fill(request)
        # Default settings: the rules for LD_* are for variables that a task chooses, unlike these.
        env = environment_for(work, variables_of(request, scratch), CommandSettings())
        started, cwd, output = time.monotonic(), str(request.folder), ""
        try:
            if request.mode == "interactive":
                code = await run_in_terminal(argv, env, cwd, request.timeout_seconds)
            else:
                group = CapturedGroup(argv, env=env, cwd=cwd, max_output_bytes=MAX_OUTPUT_BYTES)
                code = await group.finish(
                    request.timeout_seconds, lambda: self._settings.command.grace_seconds
                )
                output = _last_lines(group.stderr.last_text or group.stdout.last_text)
        except OSError as error:
            raise ExecutionFailed(f"aider cannot be started: {error.strerror or error}") from error
        changed = await run_blocking(snapshot.changed, name="weft-aider")
        result = _result_of(request, scratch, changed, code, started)
        if (problem := _problem(result, request, output)) is not None:
            raise ExecutionFailed(problem, details=result.as_json())
        return result

    def refusal_of(self, path: str) -> str | None:
        """Return why a file, relative to the first root, may not be edited; None if it may."""
        try:
            self._roots.place(path)
        except RequestError as error:
            return error.message
        return None

    def _resolve_paths(self, inputs: AiderInputs) -> tuple[Path, tuple[Path, ...]]:
        """Return folder and files as absolute paths; raise ExecutionFailed if one is not allowed."""
        try:
            folder = self._roots.place(inputs.folder)
            if not folder.is_dir():
                raise permanent_failure(f"folder '{inputs.folder}' does not exist")
            files = [
                self._roots.place(file if file.startswith("/") else f"{folder}/{file}")
                for file in dict.fromkeys(inputs.files)
            ]
        except RequestError as error:
            raise permanent_failure(error.message) from error
        return folder, tuple(files)

    def _request(
        self, inputs: AiderInputs, folder: Path, files: tuple[Path, ...], model: AiderModel
    ) -> AiderRequest:
        settings = self._settings.aider
        is_automatic = inputs.mode == "automatic"  # people decide for themselves how long a session takes
        return AiderRequest(
            mode=inputs.mode,
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


def _problem(result: AiderResult, request: AiderRequest, output: str) -> str | None:
    """Return why aider failed, or None; its exit code is 0 even if its model failed."""
    is_automatic = request.mode == "automatic"
    if result.exit_code is None:
        what = "aider" if is_automatic else "the aider session"
        return f"{what} did not end within {request.timeout_seconds:g} s"
    if result.exit_code != 0:
        return f"aider exited with code {result.exit_code}{': ' + output if is_automatic else ''}"
    if is_automatic and result.usage.answers == 0:
        return f"aider got no response from the model: {output}"
    return None


def _last_lines(text: str) -> str:
    """Return the last lines of an output, enough for the end of a traceback or a report of a token limit."""
    lines = [line for line in text.splitlines() if line.strip()]
    return cut("\n".join(lines[-MAX_OUTPUT_LINES:]), 1000)


MAX_TRANSCRIPT_CHARACTERS = 1_000_000


class _MessageSent(Struct):
    """The properties of a `message_send` event: the usage of one model request."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0


class _Event(Struct):
    """A line of aider's event log."""

    event: str
    properties: msgspec.Raw = msgspec.Raw(b"{}")


def _result_of(
    request: AiderRequest, scratch: Scratch, changed: Changed, code: int | None, started: float
) -> AiderResult:
    """Return the result of a run that has ended; `started` is its start on the monotonic clock.

    `code` is the exit code; None if the run timed out.
    """
    return AiderResult(
        mode=request.mode,
        model=request.model.id,
        diff=changed.diff,
        edited_files=changed.edited_files,
        commit=changed.commits[0] if changed.commits else None,
        commits=changed.commits,
        usage=_usage_of(scratch.events, request.model),
        transcript=_transcript_of(scratch.transcript),
        exit_code=code,
        duration_seconds=round(time.monotonic() - started, 3),
    )


def _usage_of(log: Path, model: AiderModel) -> AiderUsage:
    """Sum the usage in aider's event log, which is exact; the printed figures are rounded."""
    sent = [
        msgspec.json.decode(event.properties, type=_MessageSent)
        for event in _events(log)
        if event.event == "message_send"
    ]
    cost = sum(message.cost for message in sent)
    return AiderUsage(
        input_tokens=sum(message.prompt_tokens for message in sent),
        output_tokens=sum(message.completion_tokens for message in sent),
        cost=cost if cost > 0 or model.is_free else None,
        answers=len(sent),
    )


def _transcript_of(history: Path) -> str:
    """Return aider's transcript in Markdown, redacted and truncated; empty if there is no transcript."""
    try:
        text = history.read_text("utf-8", "replace")
    except OSError:
        return ""
    return cut_middle(text.strip(), MAX_TRANSCRIPT_CHARACTERS)


def _events(log: Path) -> list[_Event]:
    try:
        lines = log.read_bytes().splitlines()
    except OSError:
        return []
    events = []
    for line in lines:
        try:
            events.append(msgspec.json.decode(line, type=_Event))
        except msgspec.DecodeError:  # a killed process may leave an incomplete last line
            continue
    return events
