"""Lazily created models, tools, files and memory of a project, as configured in `weft.toml`."""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from weft.aio import run_blocking
from weft.config.sections import CommandSettings, HandlerSettings, MemorySettings, ModelsSettings
from weft.config.settings import (
    ProjectSettings,
    base_folder,
    find_project_file,
    project_folder,
    read_project,
    working_folder,
)
from weft.effects.checks import KnownNames, project_names
from weft.errors import RequestError
from weft.evaluator.tools import ToolFailed, Tools
from weft.language.schemas import ReadSchema
from weft.llm.events import OnEvent
from weft.llm.protocol import Models
from weft.memory.protocol import IndexProgress

if TYPE_CHECKING:
    from weft.integrations.aider.runner import AiderRunner
    from weft.llm.local.models import Fetch, LocalEmbedder
    from weft.memory.memory import Memory
    from weft.tools.roots import FileText, Roots

OnIndexing = Callable[[IndexProgress], None]
"""Receives the progress of indexing; called in a thread."""

log = logging.getLogger(__name__)


class RootFiles:
    """Reads files inside roots."""

    def __init__(self, roots: "Roots", folders: Sequence[Path] = ()) -> None:
        """Initialize; relative paths are tried in `folders` in order; the last must be the first root."""
        self._roots = roots
        self._folders = tuple(dict.fromkeys(folders))

    async def read(self, path: str) -> str:
        """Return the text of a file; a very long file is cut, with a note at the end. Raise ToolFailed."""
        try:
            found = await run_blocking(lambda: self._read_first(path), name="weft-read")
        except RequestError as error:
            raise ToolFailed(error.message) from error
        if found.is_binary:
            raise ToolFailed("it is not a text file")
        return f"{found.text}\n[cut here: {found.size} bytes in all]" if found.is_cut else found.text

    def _read_first(self, path: str) -> "FileText":
        """Read the file from the first folder that has it; raise the error of the last attempt."""
        for folder in self._folders[:-1]:
            with suppress(RequestError):
                return self._roots.read(str(folder / path))
        return self._roots.read(path)


class GivenResources(Struct, frozen=True, kw_only=True):
    """Resources and settings that replace those of the project; None: the project's own."""

    models: Models | None = None
    tools: Tools | None = None
    files: RootFiles | None = None
    commands: CommandSettings | None = None
    handler: HandlerSettings | None = None
    on_event: OnEvent | None = None
    say: Callable[[str], None] = log.info
    """Reports which model is used if no model is configured, and that aider is being installed."""
    fetch: "Fetch | None" = None
    """Downloads a missing embedded model; with None, a missing model is an error."""
    memory: "Memory | None" = None
    memory_settings: MemorySettings | None = None
    memory_roots: Sequence[Path | str] | None = None
    memory_db: str | None = None
    on_indexing: OnIndexing | None = None
    folder: Path | None = None
    """The project folder; None: found from the current folder."""
    resolves_from_cwd: bool = False
    """Whether relative paths of files are resolved against the current folder first."""
    settings: ProjectSettings | None = None
    """Those of the folder's `weft.toml`, if they have been read already."""


class ProjectResources:
    """Models, tools, files, memory and settings of a project, unless they are given.

    Each resource is created on first use: for a program without effects, neither `weft.toml` is read nor a
    library imported. In another event loop, models and tools are created again.
    """

    def __init__(self, given: GivenResources | None = None) -> None:
        self._given = given = given or GivenResources()
        self._models, self._tools = given.models, given.tools
        self._files, self._memory = given.files, given.memory
        self._project = given.settings
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop that the connections and locks of models and tools are bound to."""

    @property
    def commands(self) -> CommandSettings:
        """Return the settings for scripts."""
        return self._given.commands or self.project.executors.command

    @property
    def handler(self) -> HandlerSettings:
        """Return the limits of model sessions."""
        return self._given.handler or self.project.models.handler

    @property
    def project(self) -> ProjectSettings:
        """Return the settings of `weft.toml`, read on first use."""
        if self._project is None:
            self._project = read_project(self._project_folder())
        return self._project

    def _project_folder(self) -> Path:
        return self._given.folder or working_folder()

    def models(self) -> Models:
        """Return the models."""
        self._enter_loop()
        if self._models is None:
            self._models = self._configured_models()
        return self._models

    def tools(self) -> Tools:
        """Return the tools."""
        self._enter_loop()
        if self._tools is None:
            self._tools = self._toolbox()
        return self._tools

    def known_names(self, schemas: ReadSchema) -> KnownNames:
        """Return the names that programs can use; None for models and tools that were passed in."""
        known = project_names(self.project, schemas)
        tools = known.tools if self._given.tools is None else None
        return KnownNames(tools, known.models if self._given.models is None else None, schemas)

    def files(self) -> RootFiles:
        """Return the reader for files of tasks, which reads only inside the roots of `[tools]`."""
        if self._files is None:
            # Imported here: needed only by programs that name files.
            from weft.tools.roots import Roots

            here = [Path.cwd()] if self._given.resolves_from_cwd else []
            folders = (*here, project_folder(self._project_folder()), self.base())
            self._files = RootFiles(Roots(self.project.tools.roots), folders)
        return self._files

    def found_files(self, memory: "Memory") -> RootFiles:
        """Return the reader for files that memory found, which reads only inside the roots of memory."""
        # Imported here: see `files`.
        from weft.tools.roots import Roots

        return RootFiles(Roots(memory.roots))

    def base(self) -> Path:
        """Return the folder that relative paths of tools and tasks are resolved against."""
        return base_folder(self.project)

    @property
    def memory_settings(self) -> MemorySettings:
        """Return the settings of memory: limits of the context for a task, embeddings and ranking."""
        return self._given.memory_settings or self.project.memory

    def memory(self) -> "Memory":
        """Return the memory of the project."""
        if self._memory is None:
            # Imported here: needed only by programs that query memory.
            from weft.effects.memory import open_memory

            roots = self._given.memory_roots or self.project.memory.roots or self.project.tools.roots
            self._memory = open_memory(
                roots, self._given.on_indexing, self._embedder(), self._given.memory_db, self._given.folder
            )
        return self._memory

    def _embedder(self) -> "LocalEmbedder | None":
        name = self.memory_settings.embeddings
        if name is None:
            return None
        # Imported here: embeddings are off by default.
        from weft.llm.local.models import LocalEmbedder

        return LocalEmbedder(name, self._given.fetch)

    def _enter_loop(self) -> None:
        """Forget what belongs to another event loop: it cannot be used or closed in this one."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            self._models, self._tools = self._given.models, self._given.tools

    def _configured_models(self) -> Models:
        # Imported here: needed only by programs that use models.
        from weft.llm.local.models import EmbeddedModels
        from weft.llm.models import ConfiguredModels

        return ConfiguredModels(
            self.chosen_models(),
            os.environ,
            EmbeddedModels(fetch=self._given.fetch),
            on_event=self._given.on_event,
            on_fallback=self._given.say,
        )

    def _toolbox(self) -> Tools:
        # Imported here: imports all executors, and most programs call no tools.
        from weft.effects.tools import open_project_tools

        file = find_project_file(self._project_folder())
        folder = self._project_folder() if file is None else file.parent
        project = self.project
        return open_project_tools(project.tools, folder, os.environ, project.executors, project.models)

    def aider(self) -> "AiderRunner":
        """Return the runner of aider, with the configured models: its process cannot use passed-in models."""
        # Imported here: few programs have aider tasks.
        from weft.integrations.aider.models import AiderModels
        from weft.integrations.aider.runner import AiderRunner

        project = self.project
        executors = structs.replace(project.executors, command=self.commands)
        models = AiderModels(self.chosen_models(), os.environ, self._given.fetch)
        kept_files = [Path(project.tools.mcp).name]
        return AiderRunner(executors, project.tools.roots, models, say=self._given.say, kept_files=kept_files)

    def chosen_models(self) -> ModelsSettings:
        """Return the model settings, with WEFT_MODEL as the default model if it is set."""
        settings = self.project.models
        chosen = os.environ.get("WEFT_MODEL", "").strip()
        return structs.replace(settings, default=chosen) if chosen else settings

    async def close(self) -> None:
        """Close servers, connections and loaded models; they are created again on the next use.

        A memory that was passed in is not closed.
        """
        memory, self._memory = self._memory, self._given.memory
        models, tools = self._models, self._tools
        self._models, self._tools = self._given.models, self._given.tools
        try:
            if memory is not None and memory is not self._given.memory:
                await run_blocking(memory.close, name="weft-memory")
            if tools is not None:
                await tools.close()
        finally:
            if models is not None:
                await models.close()
