"""Registry of tools by name."""

import re
from collections.abc import Iterator

from msgspec import Struct

from weft.errors import RequestError
from weft.evaluator.tools import Tool

RESERVED = ("system:", "mcp:", "executor:")
"""Prefixes that names of users' tools may not have."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_./-]*)+")


class DuplicateTool(RequestError):
    """A tool with this name is already registered."""

    code = "duplicate-tool"

    def __init__(self, name: str, *, source: str) -> None:
        super().__init__(f"tool '{name}' is already registered ({source})")
        self.name = name


class Registered(Struct, frozen=True):
    """A tool and its source: a module and function, or a text such as `built in`."""

    tool: Tool
    source: str


def check_name(name: str) -> str:
    """Return the name of a user's tool. Raise ValueError if it is invalid or reserved."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"a tool's name has two parts, like 'shop:find_order', not {name!r}")
    if name.startswith(RESERVED):
        raise ValueError(f"tool name '{name}' has a reserved prefix: do not use {', '.join(RESERVED)}")
    return name


class ToolRegistry:
    """Tools by name. Names are compared exactly, without Unicode normalisation or case folding."""

    def __init__(self) -> None:
        self._registered: dict[str, Registered] = {}

    def register(self, tool: Tool, *, source: str) -> None:
        """Add a tool. Raise DuplicateTool if the name belongs to a tool from another source.

        A tool from the same source is replaced, because a module may be imported again.
        """
        name = tool.definition.name
        known = self._registered.get(name)
        if known is not None and known.source != source:
            raise DuplicateTool(name, source=known.source)
        self._registered[name] = Registered(tool, source)

    def find(self, name: str) -> Tool | None:
        known = self._registered.get(name)
        return None if known is None else known.tool

    def names(self) -> frozenset[str]:
        return frozenset(self._registered)

    def __iter__(self) -> Iterator[Registered]:
        return iter([self._registered[name] for name in sorted(self._registered)])
