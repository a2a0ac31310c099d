"""The names of tools that a project's settings make known, without connecting to anybody."""

import json
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from pathlib import Path

from weft.model_settings import ToolsSettings

SYSTEM_TOOLS = (
    "system:get_context",
    "system:list_directory",
    "system:read_files",
    "system:request_user_input",
    "system:run_script",
    "system:spawn_subtask",
    "system:write_file",
)


class ToolNames(Collection[str]):
    """What `weft check` takes for the name of a tool.

    Those of an MCP server are known only once it is connected, and those of Python modules once they are
    imported: any name is taken that a server or a module of the settings may have.
    """

    def __init__(self, settings: ToolsSettings, registered: Iterable[str] = ()) -> None:
        """`registered` are the names of functions that this process has made tools."""
        self._settings = settings
        self._known = {*SYSTEM_TOOLS, *(f"executor:{name}" for name in settings.executors), *registered}

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        kind, _, rest = name.partition(":")
        if kind == "mcp":
            servers = self._servers
            return servers is None or rest.partition(":")[0] in servers
        if kind in ("system", "executor"):
            return name in self._known
        return name in self._known or bool(self._settings.modules)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._known))

    def __len__(self) -> int:
        return len(self._known)

    @cached_property
    def _servers(self) -> frozenset[str] | None:
        """The MCP servers of the project; None when the file cannot be read: that is not for here to say."""
        try:
            document = json.loads(Path(self._settings.mcp).read_bytes())
            return frozenset(document["mcpServers"])
        except FileNotFoundError:
            return frozenset()
        except (OSError, ValueError, LookupError, TypeError):
            return None
