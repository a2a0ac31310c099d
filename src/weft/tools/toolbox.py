"""All the tools of a project, by name."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from weft.evaluator.tools import Tool, ToolFailed
from weft.model_settings import ToolsSettings
from weft.threads import run_blocking
from weft.tools.functions import registered
from weft.tools.modules import ToolModules
from weft.tools.registry import ToolRegistry
from weft.tools.roots import Roots
from weft.tools.system_asking import GetContext, RequestUserInput
from weft.tools.system_files import ListDirectory, ReadFiles, WriteFile
from weft.tools.system_scripts import RunScript, RunScriptTool

BUILT_IN = "built in"


class ListedTool(Struct, frozen=True, kw_only=True):
    """What `weft tools` says of a tool, or of a place that tools should come from."""

    name: str
    source: str
    description: str = ""
    has_effects: bool | None = None
    error: str | None = None
    """Why it cannot be used; None: it can."""


class Toolbox:
    """Finds tools: weft's own, Python functions, what was handed in."""

    def __init__(self, tools: Iterable[tuple[Tool, str]], *, roots: Roots, modules: ToolModules) -> None:
        self.roots = roots
        self._given = ToolRegistry()
        for tool, source in tools:
            self._given.register(tool, source=source)
        self._modules = modules

    def names(self) -> frozenset[str]:
        """Those that are known without asking anybody."""
        self._modules.load()
        return self._given.names() | registered.names()

    async def find(self, name: str) -> Tool | None:
        """The tool of exactly that name."""
        found = self._given.find(name) or registered.find(name)
        if found is not None:
            error = _error_of(found)
            if error is not None:
                raise ToolFailed(error)
            return found
        if not self._modules.is_loaded:
            # In a thread: what a module does when it is first imported may take long.
            await run_blocking(self._modules.load, name="weft-import")
            found = registered.find(name)
        failures = self._modules.load()
        if found is None and failures:
            module, why = next(iter(failures.items()))
            raise ToolFailed(f"there is no tool '{name}', and module '{module}' cannot be imported: {why}")
        return found

    async def listed(self) -> tuple[ListedTool, ...]:
        """Every tool, and every place that tools could not be had from."""
        failures = await run_blocking(self._modules.load, name="weft-import")
        tools = [_listed(one.tool, one.source) for registry in (self._given, registered) for one in registry]
        missing = [
            ListedTool(name="python:*", source=module, error=f"cannot be imported: {why}")
            for module, why in failures.items()
        ]
        return (*tools, *missing)

    async def close(self) -> None:
        """Let go of everything."""


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
    """Why a tool that was handed in cannot be used: only such a one has the attribute."""
    error: str | None = getattr(tool, "error", None)
    return error


def open_toolbox(
    settings: ToolsSettings,
    folder: Path,
    environment: Mapping[str, str],
    *,
    run_script: RunScript | None = None,
    extra: Iterable[tuple[Tool, str]] = (),
) -> Toolbox:
    """The tools of a project; nothing is imported or connected before it is needed.

    `folder` is where relative roots and modules are; `extra` are further tools, each with where it is from.
    """
    roots = Roots([folder / root for root in settings.roots], kept_files=[Path(settings.mcp).name])
    own: list[Tool] = [
        ReadFiles(roots),
        ListDirectory(roots),
        WriteFile(roots),
        RunScriptTool(run_script),
        GetContext(),
        RequestUserInput(),
    ]
    tools = [*((tool, BUILT_IN) for tool in own), *extra]
    return Toolbox(tools, roots=roots, modules=ToolModules(settings.modules, folder))
