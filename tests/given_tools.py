"""Tools made of functions, for tests of what calls tools."""

import inspect
from collections.abc import Callable
from typing import Any

from weft.evaluator.tools import Tool, ToolContext, ToolDefinition


class GivenTool:
    """A function as a tool. Its arguments may be anything but what `schema` says of them."""

    has_effects = False

    def __init__(self, name: str, act: Callable[..., Any], schema: dict[str, Any] | None = None) -> None:
        properties: dict[str, Any] = {parameter: {} for parameter in inspect.signature(act).parameters}
        self.definition = ToolDefinition(
            name=name, description=f"Does {name}.", input_schema=schema or {"properties": properties}
        )
        self._act = act
        self.contexts: list[ToolContext] = []

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        self.contexts.append(context)
        given = self._act(**arguments)
        return await given if inspect.isawaitable(given) else given


class GivenTools:
    """The tools of a test; keeps who was looked for."""

    def __init__(self, *tools: Tool) -> None:
        self._tools = {tool.definition.name: tool for tool in tools}
        self.looked_for: list[str] = []
        self.is_closed = False

    def names(self) -> frozenset[str]:
        return frozenset(self._tools)

    async def find(self, name: str) -> Tool | None:
        self.looked_for.append(name)
        return self._tools.get(name)

    async def close(self) -> None:
        self.is_closed = True
