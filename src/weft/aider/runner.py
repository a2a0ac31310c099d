"""Runs aider: from the inputs of a task to what was done."""

import os
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from weft.aider.automatic import run_automatic
from weft.aider.changes import GitFailed, GitLook, first_look, repository_of
from weft.aider.inputs import AiderInputs
from weft.aider.install import Say, ready_aider
from weft.aider.interactive import run_interactive, terminal_of_person
from weft.aider.invocation import Scratch
from weft.aider.models import AiderModels
from weft.aider.request import AiderModel, AiderRequest, AiderResult
from weft.aider.sole_use import sole_use
from weft.errors import MissingExtra, RequestError
from weft.executor_settings import ExecutorSettings
from weft.executors.protocol import ExecutionFailed, Work
from weft.llm.errors import ModelError
from weft.threads import run_blocking
from weft.tools.roots import Roots

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
