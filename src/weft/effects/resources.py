"""Lazily created models, tools, files and memory of a project, as configured in `weft.toml`."""

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from msgspec import structs

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
from weft.effects.task_context import ReadsFiles
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


class ProjectResources:
    """Models, tools, files, memory and settings of a project, unless they are passed in.

    Each resource is created on first use: for a program without effects, neither `weft.toml` is read nor a
    library imported. Several event loops, each in a thread, may share one object: each gets its own models
    and tools.
    """

    def __init__(
        self,
        *,
        models: Models | None = None,
        tools: Tools | None = None,
        files: ReadsFiles | None = None,
        commands: CommandSettings | None = None,
        handler: HandlerSettings | None = None,
        on_event: OnEvent | None = None,
        say: Callable[[str], None] = log.info,
        fetch: "Fetch | None" = None,
        memory: "Memory | None" = None,
        memory_settings: MemorySettings | None = None,
        memory_roots: Sequence[Path | str] | None = None,
        memory_db: str | None = None,
        on_indexing: OnIndexing | None = None,
        folder: Path | str | None = None,
        resolves_from_cwd: bool = False,
    ) -> None:
        """Initialize; `folder` is the project folder, by default found from the current folder.

        With `resolves_from_cwd`, relative paths of files are resolved against the current folder first.
        """
        self._resolves_from_cwd = resolves_from_cwd
        self._folder = None if folder is None else Path(folder)
        self._given_models, self._given_tools = models, tools
        self._given_memory = self._memory = memory
        self._memory_settings = memory_settings
        self._memory_roots = memory_roots
        self._memory_db = memory_db
        self._on_indexing = on_indexing
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopResources] = WeakKeyDictionary()
        """By event loop: connections and locks are bound to the loop they were created in."""
        self._lock = threading.Lock()  # event loops run in threads
        self._files = files
        self._commands = commands
        self._handler = handler
        self._on_event = on_event
        self._say = say
        """Reports which model is used if no model is configured, and that aider is being installed."""
        self._fetch = fetch
        """Downloads a missing embedded model; with None, a missing model is an error."""
        self._project: ProjectSettings | None = None

    @property
    def commands(self) -> CommandSettings:
        """Return the settings for scripts."""
        return self._commands if self._commands is not None else self.project.executors.command

    @property
    def handler(self) -> HandlerSettings:
        """Return the limits of model sessions."""
        return self._handler if self._handler is not None else self.project.models.handler

    @property
    def project(self) -> ProjectSettings:
        """Return the settings of `weft.toml`, read on first use."""
        if self._project is None:
            self._project = read_project(self._project_folder())
        return self._project

    def _project_folder(self) -> Path:
        return self._folder or working_folder()

    def models(self) -> Models:
        """Return the models of this event loop."""
        opened = self._for_this_loop()
        if opened.models is None:
            opened.models = self._configured_models()
        return opened.models

    def tools(self) -> Tools:
        """Return the tools of this event loop."""
        opened = self._for_this_loop()
        if opened.tools is None:
            opened.tools = self._toolbox()
        return opened.tools

    def known_names(self, schemas: ReadSchema) -> KnownNames:
        """Return the names that programs can use; None for models and tools that were passed in."""
        known = project_names(self.project, schemas)
        tools = known.tools if self._given_tools is None else None
        return KnownNames(tools, known.models if self._given_models is None else None, schemas)

    def files(self) -> ReadsFiles:
        """Return the reader for files of tasks, which reads only inside the roots of `[tools]`."""
        if self._files is None:
            # Imported here: needed only by programs that name files.
            from weft.tools.roots import Roots

            here = [Path.cwd()] if self._resolves_from_cwd else []
            folders = (*here, project_folder(self._project_folder()), self.base())
            self._files = RootFiles(Roots(self.project.tools.roots), folders)
        return self._files

    def found_files(self, memory: "Memory") -> ReadsFiles:
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
        return self._memory_settings if self._memory_settings is not None else self.project.memory

    def memory(self) -> "Memory":
        """Return the memory of the project, shared by all event loops."""
        if self._memory is None:
            # Imported here: needed only by programs that query memory.
            from weft.effects.memory import open_memory

            roots = self._memory_roots or self.project.memory.roots or self.project.tools.roots
            self._memory = open_memory(
                roots, self._on_indexing, self._embedder(), self._memory_db, self._folder
            )
        return self._memory

    def _embedder(self) -> "LocalEmbedder | None":
        name = self.memory_settings.embeddings
        if name is None:
            return None
        # Imported here: embeddings are off by default.
        from weft.llm.local.models import LocalEmbedder

        return LocalEmbedder(name, self._fetch)

    def _for_this_loop(self) -> "_LoopResources":
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop not in self._by_loop:
                self._by_loop[loop] = _LoopResources(self._given_models, self._given_tools)
            return self._by_loop[loop]

    def _configured_models(self) -> Models:
        # Imported here: needed only by programs that use models.
        from weft.llm.local.models import EmbeddedModels
        from weft.llm.models import ConfiguredModels

        return ConfiguredModels(
            self._chosen_models(),
            os.environ,
            EmbeddedModels(fetch=self._fetch),
            on_event=self._on_event,
            on_fallback=self._say,
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
        models = AiderModels(self._chosen_models(), os.environ, self._fetch)
        kept_files = [Path(project.tools.mcp).name]
        return AiderRunner(executors, project.tools.roots, models, say=self._say, kept_files=kept_files)

    def _chosen_models(self) -> ModelsSettings:
        """Return the model settings, with WEFT_MODEL as the default model if it is set."""
        settings = self.project.models
        chosen = os.environ.get("WEFT_MODEL", "").strip()
        return structs.replace(settings, default=chosen) if chosen else settings

    async def close(self) -> None:
        """Close the servers, connections and loaded models of this event loop.

        They are created again on the next use. Models and tools that were passed in, and the memory that
        this object opened, are closed with the last loop. A memory that was passed in is not closed.
        """
        with self._lock:
            own = self._by_loop.pop(asyncio.get_running_loop(), None)
            is_last = not any(not loop.is_closed() for loop in self._by_loop)
            memory = self._memory if is_last and self._memory is not self._given_memory else None
            if memory is not None:
                self._memory = None
        opened = own or _LoopResources(self._given_models, self._given_tools)
        try:
            if memory is not None:
                await run_blocking(memory.close, name="weft-memory")
            if opened.tools is not None and (is_last or opened.tools is not self._given_tools):
                await opened.tools.close()
        finally:
            if opened.models is not None and (is_last or opened.models is not self._given_models):
                await opened.models.close()


class _LoopResources:
    """Models and tools of one event loop."""

    def __init__(self, models: Models | None, tools: Tools | None) -> None:
        self.models = models
        self.tools = tools


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
