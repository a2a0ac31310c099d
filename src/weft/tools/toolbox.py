"""The tools of a project by name, including those of `[tools] modules` and MCP servers."""

import asyncio
import importlib
import logging
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from weft.aio import run_blocking
from weft.config.sections import PythonSettings, ToolsSettings
from weft.errors import text_of
from weft.evaluator.tools import Tool, ToolFailed, ToolMissesDependency
from weft.tools.functions import ToolRegistry, registered
from weft.tools.mcp.client import PREFIX, McpServer, McpServers
from weft.tools.mcp.config import InvalidServer
from weft.tools.mcp.connection import ServerTimeouts
from weft.tools.roots import Roots
from weft.tools.system import RunScript, system_tools

log = logging.getLogger(__name__)


class ToolModules:
    """Imports the modules of tools on first use, and records failed imports."""

    def __init__(self, names: Sequence[str], folder: Path) -> None:
        self._names = names
        self._folder = str(folder)
        self._failures: dict[str, str] = {}
        self._is_loaded = not names
        self._lock = threading.Lock()  # Toolbox.names imports in the event loop, Toolbox.find in a thread

    def load(self) -> Mapping[str, str]:
        """Import the modules unless that is done. Return the failures: reasons by module."""
        with self._lock:
            if not self._is_loaded:
                if self._folder not in sys.path:
                    sys.path.append(self._folder)  # last, so that a project's file never shadows a library
                for name in self._names:
                    self._import(name)
                self._is_loaded = True
        return self._failures

    def _import(self, name: str) -> None:
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:
            # SystemExit: the module calls sys.exit().
            self._failures[name] = text_of(error)
            log.warning(
                "cannot import tool module %s: %s",
                name,
                text_of(error),
                extra={"action": "tool_module_failed", "tool_module": name},
            )


BUILT_IN = "built in"


class ListedTool(Struct, frozen=True, kw_only=True):
    """A row of `weft tools`: a tool, or a source of tools that failed."""

    name: str
    source: str
    description: str = ""
    has_effects: bool | None = None
    """None if the row is a source of tools, which are unknown."""
    error: str | None = None
    """Why the tool cannot be used; None if it can."""


class Toolbox:
    """Finds tools: built-in ones, Python functions, those passed in, and those of MCP servers."""

    def __init__(
        self,
        tools: Iterable[tuple[Tool, str]],
        *,
        roots: Roots,
        modules: ToolModules,
        servers: McpServers,
    ) -> None:
        self.roots = roots
        self._given = ToolRegistry()
        for tool, source in tools:
            self._given.register(tool, source=source)
        self._modules = modules
        self._servers = servers

    def names(self) -> frozenset[str]:
        """Return the names known without a connection; for an MCP server, those of its last list."""
        self._modules.load()
        return self._given.names() | registered.names() | self._servers.names()

    def known(self, name: str) -> Tool | None:
        """Return the tool with exactly this name, or None if it is unusable or not loaded yet.

        No server is connected and no module is imported.
        """
        found = self._given.find(name) or registered.find(name)
        return found if found is not None and _error_of(found) is None else None

    async def find(self, name: str) -> Tool | None:
        """Return the tool with exactly this name, or None. Raise ToolFailed if it cannot be used."""
        found = self._given.find(name) or registered.find(name)
        if found is not None:
            error = _error_of(found)
            if error is not None:
                raise ToolFailed(error)
            return found
        if name.startswith(PREFIX):
            return await self._servers.find(name)
        # In a thread, because an import may take long.
        failures = await run_blocking(self._modules.load, name="weft-import")
        found = registered.find(name)
        if found is None and failures:
            module, why = next(iter(failures.items()))
            message = f"there is no tool '{name}', and module '{module}' cannot be imported: {why}"
            raise ToolMissesDependency(message)
        return found

    async def listed(self, *, is_connecting: bool = False) -> tuple[ListedTool, ...]:
        """Return all tools and failed sources; with `is_connecting`, connect to servers to list theirs."""
        failures = await run_blocking(self._modules.load, name="weft-import")
        tools = [_listed(one.tool, one.source) for registry in (self._given, registered) for one in registry]
        missing = [
            ListedTool(name="python:*", source=module, error=f"cannot be imported: {why}")
            for module, why in failures.items()
        ]
        return (*tools, *missing, *await self._listed_servers(is_connecting=is_connecting))

    async def _listed_servers(self, *, is_connecting: bool) -> list[ListedTool]:
        try:
            servers = self._servers.all()
        except InvalidServer as error:
            return [ListedTool(name=f"{PREFIX}*", source=str(self._servers.path), error=error.message)]
        found = await asyncio.gather(
            *(_listed_server(name, one, is_connecting=is_connecting) for name, one in servers.items())
        )
        return [tool for tools in found for tool in tools]

    async def close(self) -> None:
        await self._servers.close()


async def _listed_server(
    name: str, server: McpServer | InvalidServer, *, is_connecting: bool
) -> list[ListedTool]:
    """Return the tools of a server, or one row for all of them if they are unknown."""
    source = f"MCP server {name}"
    if isinstance(server, InvalidServer):
        return [ListedTool(name=f"{PREFIX}{name}:*", source=source, error=server.message)]
    if not is_connecting and not server.known():
        return [ListedTool(name=f"{PREFIX}{name}:*", source=source, description="not connected yet")]
    try:
        tools = await server.tools()
    except ToolFailed as error:
        return [ListedTool(name=f"{PREFIX}{name}:*", source=source, error=str(error))]
    return [_listed(tool, source) for _, tool in sorted(tools.items())]


def _listed(tool: Tool, source: str) -> ListedTool:
    definition = tool.definition
    return ListedTool(
        name=definition.name,
        source=source,
        description=definition.description,
        has_effects=tool.has_effects,
        error=_error_of(tool),
    )


def _error_of(tool: Tool) -> str | None:
    # A tool that was passed in may have this attribute: why it cannot be used.
    error: str | None = getattr(tool, "error", None)
    return error


def open_toolbox(
    settings: ToolsSettings,
    folder: Path,
    environment: Mapping[str, str],
    *,
    run_script: RunScript | None = None,
    extra: Iterable[tuple[Tool, str]] = (),
    timeouts: ServerTimeouts | None = None,
    functions: PythonSettings | None = None,
) -> Toolbox:
    """Return the tools of a project; modules are imported and servers connected on first use.

    Relative roots and modules are below `folder`. Without `run_script` the tool `system:run_script` fails.
    `extra` are further tools, each with its source. `functions` are the Python functions that tasks may call;
    tools may not write their modules.
    """
    roots = _tool_roots(settings, folder, functions or PythonSettings())
    tools = [*((tool, BUILT_IN) for tool in system_tools(roots, run_script)), *extra]
    return Toolbox(
        tools,
        roots=roots,
        modules=ToolModules(settings.modules, folder),
        servers=McpServers(
            folder / settings.mcp,
            environment,
            timeouts=timeouts,
            trusted=frozenset(settings.read_only_hints),
        ),
    )


def _tool_roots(settings: ToolsSettings, folder: Path, functions: PythonSettings) -> Roots:
    """Return the roots; code that this process runs may not be written unless the settings allow it."""
    folders = [folder / root for root in settings.roots]
    kept_files = [Path(settings.mcp).name]
    if settings.allow_own_modules:
        return Roots(folders, kept_files=kept_files)
    return Roots(
        folders,
        kept_files=kept_files,
        kept_modules=(*settings.modules, *functions.modules),
        # Submodules too: tasks may call their functions, and tools may import them later.
        kept_packages=[
            *(Path(entry, *module.split(".")) for entry in functions.path for module in functions.modules),
            *(Path(folder, *module.split(".")) for module in settings.modules),
        ],
        keeps_imports=True,
    )
