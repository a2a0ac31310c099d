"""`aider`: has the program aider edit files."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

from msgspec import Meta, to_builtins

from weft.aider.automatic import run_automatic
from weft.aider.changes import GitFailed, GitLook, first_look
from weft.aider.install import Say, ready_aider
from weft.aider.interactive import run_interactive, terminal_of_person
from weft.aider.invocation import Scratch
from weft.aider.models import AiderModels
from weft.aider.request import AiderModel, AiderRequest, AiderResult, Mode
from weft.errors import MissingExtra, RequestError
from weft.executor_settings import EDIT_FORMAT, ExecutorSettings
from weft.executors.inputs import Inputs, read_inputs, schema_of
from weft.executors.process_group import KILL_SECONDS
from weft.executors.protocol import LET_GO_SECONDS, ExecutionFailed, Work
from weft.llm.errors import ModelError
from weft.tasks.record import ExecutorType, JsonObject
from weft.threads import run_blocking
from weft.tools.roots import Roots

NAME = "aider"


class AiderInputs(Inputs, frozen=True, kw_only=True):
    prompt: Annotated[str, Meta(min_length=1, description="What is to be done.")]
    files: Annotated[
        tuple[str, ...], Meta(description="Files to edit, relative to the folder; inside the roots.")
    ] = ()
    mode: Annotated[Mode, Meta(description="`interactive` hands the terminal to a person; needs one.")] = (
        "automatic"
    )
    model: Annotated[str, Meta(description="An alias or provider:model; default: the project's.")] | None = (
        None
    )
    provider: Annotated[str, Meta(description="Instead of the provider of the model's name.")] | None = None
    folder: Annotated[str, Meta(description="Where to run, inside the roots; default: the first root.")] = "."
    auto_commits: (
        Annotated[bool, Meta(description="Whether it commits, in a git repository; default: the settings'.")]
        | None
    ) = None
    edit_format: (
        Annotated[str, Meta(pattern=EDIT_FORMAT, description="How the model writes edits: diff, whole ...")]
        | None
    ) = None
    timeout_seconds: Annotated[float, Meta(gt=0, description="When to call it off.")] | None = None


class Aider:
    """Runs aider, each run in a process group that ends with the task."""

    id = NAME
    type = ExecutorType.LOCAL
    summary = "Has aider edit files; gives the diff, the commit, what it took, and the transcript."
    input_schema = schema_of(AiderInputs)
    uses_dependencies = False

    def __init__(
        self,
        settings: ExecutorSettings,
        roots: Sequence[str | Path],
        models: AiderModels,
        *,
        say: Say,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """`say` tells a person that aider is being installed."""
        self._settings = settings
        self._roots = Roots(roots)
        self._models = models
        self._say = say
        self._environment = environment

    @property
    def let_go_seconds(self) -> float:
        """It has the grace time of programs once the task is called off."""
        return self._settings.command.grace_seconds + KILL_SECONDS + LET_GO_SECONDS

    async def execute(self, work: Work) -> JsonObject:
        inputs = read_inputs(AiderInputs, work.inputs)
        result: JsonObject = to_builtins(await self.run(inputs, work))
        return result

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
            model=model,
            auto_commits=settings.auto_commits if inputs.auto_commits is None else inputs.auto_commits,
            edit_format=inputs.edit_format or settings.edit_format,
            map_tokens=settings.map_tokens,
            timeout_seconds=inputs.timeout_seconds or (settings.timeout_seconds if is_automatic else None),
        )
