"""What effects are performed with, as a project's `weft.toml` says: each made when it is first needed."""

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
    from weft.effects.embedder import LocalEmbedder
    from weft.integrations.aider.runner import AiderRunner
    from weft.llm.local.models import Fetch
    from weft.memory.memory import Memory
    from weft.tools.roots import FileText, Roots

OnIndexing = Callable[[IndexProgress], None]
"""Told how far an index is. Called in a thread."""

log = logging.getLogger(__name__)


class ProjectResources:
    """Models, tools, files and settings. What is given is used; the rest is the project's.

    A program without effects pays for none of it: neither `weft.toml` is read nor a library imported. Several
    event loops, each in a thread, may use one object: each has models and tools of its own.
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
        is_from_here: bool = False,
    ) -> None:
        """`folder` is that of the project; without it the one that this process is in.

        `is_from_here`: relative paths of files are looked up in the current folder first.
        """
        self._is_from_here = is_from_here
        self._folder = None if folder is None else Path(folder)
        self._given_models, self._given_tools = models, tools
        self._given_memory = self._memory = memory
        self._memory_settings = memory_settings
        self._memory_roots = memory_roots
        self._memory_db = memory_db
        self._on_indexing = on_indexing
        self._opened: WeakKeyDictionary[asyncio.AbstractEventLoop, _Opened] = WeakKeyDictionary()
        """By event loop: connections and locks belong to the one that they were made in."""
        self._lock = threading.Lock()  # loops run in threads
        self._files = files
        self._commands = commands
        self._handler = handler
        self._on_event = on_event
        self._say = say
        """Tells a person which model answers when nobody has chosen one."""
        self._fetch = fetch
        """Brings an embedded model that is needed and not here; None: that is an error."""
        self._project: ProjectSettings | None = None

    @property
    def commands(self) -> CommandSettings:
        """What scripts may do."""
        return self._commands if self._commands is not None else self.project.executors.command

    @property
    def handler(self) -> HandlerSettings:
        """What every session is bound by."""
        return self._handler if self._handler is not None else self.project.models.handler

    @property
    def project(self) -> ProjectSettings:
        """What `weft.toml` says."""
        if self._project is None:
            self._project = read_project(self._here_or_there())
        return self._project

    def _here_or_there(self) -> Path:
        return self._folder or working_folder()

    def models(self) -> Models:
        """The models there are."""
        opened = self._here()
        if opened.models is None:
            opened.models = self._configured()
        return opened.models

    def tools(self) -> Tools:
        """The tools there are."""
        opened = self._here()
        if opened.tools is None:
            opened.tools = self._toolbox()
        return opened.tools

    def known_names(self, schemas: ReadSchema) -> KnownNames:
        """Return what programs can name; of models and tools that were given it is not known beforehand."""
        known = project_names(self.project, schemas)
        tools = known.tools if self._given_tools is None else None
        return KnownNames(tools, known.models if self._given_models is None else None, schemas)

    def files(self) -> ReadsFiles:
        """What reads the files of tasks: inside the roots."""
        if self._files is None:
            # Imported here: programs that name no files need not pay for it.
            from weft.tools.roots import Roots

            here = [Path.cwd()] if self._is_from_here else []
            folders = (*here, project_folder(self._here_or_there()), self.base())
            self._files = RootFiles(Roots(self.project.tools.roots), folders)
        return self._files

    def found_files(self, memory: "Memory") -> ReadsFiles:
        """What reads the files that memory found: inside its roots, which may not be those of tools."""
        # Imported here: as above.
        from weft.tools.roots import Roots

        return RootFiles(Roots(memory.roots))

    def base(self) -> Path:
        """The folder that tools and tasks begin a relative path at."""
        return base_folder(self.project)

    @property
    def memory_settings(self) -> MemorySettings:
        """What memory may give to a task."""
        return self._memory_settings if self._memory_settings is not None else self.project.memory

    def memory(self) -> "Memory":
        """What knows the files of the project."""
        if self._memory is None:
            # Imported here: programs that ask for no context need not pay for it.
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
        # Imported here: it is off unless somebody turns it on.
        from weft.effects.embedder import LocalEmbedder

        return LocalEmbedder(name, self._fetch)

    def _here(self) -> "_Opened":
        """What is open in the running event loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop not in self._opened:
                self._opened[loop] = _Opened(self._given_models, self._given_tools)
            return self._opened[loop]

    def _configured(self) -> Models:
        # Imported here: a program that asks no model need not pay for it.
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
        # Imported here: most programs call no tools, and all executors come with them.
        from weft.effects.tools import open_project_tools

        file = find_project_file(self._here_or_there())
        folder = self._here_or_there() if file is None else file.parent
        project = self.project
        return open_project_tools(project.tools, folder, os.environ, project.executors, project.models)

    def aider(self) -> "AiderRunner":
        """What runs aider: with the models of the settings, for those that were given are no programs."""
        # Imported here: few programs have such tasks.
        from weft.integrations.aider.models import AiderModels
        from weft.integrations.aider.runner import AiderRunner

        project = self.project
        executors = structs.replace(project.executors, command=self.commands)
        models = AiderModels(self._chosen_models(), os.environ, self._fetch)
        kept_files = [Path(project.tools.mcp).name]
        return AiderRunner(executors, project.tools.roots, models, say=self._say, kept_files=kept_files)

    def _chosen_models(self) -> ModelsSettings:
        """The settings of models, with the default that the environment names."""
        settings = self.project.models
        chosen = os.environ.get("WEFT_MODEL", "").strip()
        return structs.replace(settings, default=chosen) if chosen else settings

    async def close(self) -> None:
        """Let go of what this event loop has opened: servers, connections and models in memory.

        What is needed again is made again. What was given is closed with the last loop that uses it; the
        index too, which all loops share.
        """
        with self._lock:
            own = self._opened.pop(asyncio.get_running_loop(), None)
            is_last = not any(not loop.is_closed() for loop in self._opened)
            memory = self._memory if is_last and self._memory is not self._given_memory else None
            if memory is not None:
                self._memory = None
        opened = own or _Opened(self._given_models, self._given_tools)
        try:
            if memory is not None:
                await run_blocking(memory.close, name="weft-memory")
            if opened.tools is not None and (is_last or opened.tools is not self._given_tools):
                await opened.tools.close()
        finally:
            if opened.models is not None and (is_last or opened.models is not self._given_models):
                await opened.models.close()


class _Opened:
    """What one event loop uses."""

    def __init__(self, models: Models | None, tools: Tools | None) -> None:
        self.models = models
        self.tools = tools


class RootFiles:
    """Reads files inside roots."""

    def __init__(self, roots: "Roots", folders: Sequence[Path] = ()) -> None:
        """`folders` are where a relative path is looked up, in this order; without them in the first root."""
        self._roots = roots
        self._folders = tuple(dict.fromkeys(folders))

    async def read(self, path: str) -> str:
        """Return the text of a file; of one that is very long the beginning, which says so."""
        try:
            found = await run_blocking(lambda: self._first(path), name="weft-read")
        except RequestError as error:
            raise ToolFailed(error.message) from error
        if found.is_binary:
            raise ToolFailed("it is no text")
        return f"{found.text}\n[cut here: {found.size} bytes in all]" if found.is_cut else found.text

    def _first(self, path: str) -> "FileText":
        """Read the first file of that path which is there; raise what is wrong with the last one."""
        for folder in self._folders[:-1]:
            with suppress(RequestError):
                return self._roots.read(str(folder / path))
        return self._roots.read(path)
