"""Tools by name."""

import re
from collections.abc import Iterator

from msgspec import Struct

from weft.errors import RequestError
from weft.evaluator.tools import Tool

RESERVED = ("system:", "mcp:", "executor:")
"""What names begin with that weft gives itself."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_./-]*)+")


class DuplicateTool(RequestError):
    """A tool of that name is there already."""

    code = "duplicate-tool"

    def __init__(self, name: str, *, source: str) -> None:
        super().__init__(f"a tool called '{name}' is there already ({source})")
        self.name = name


class Registered(Struct, frozen=True):
    """A tool and where it came from."""

    tool: Tool
    source: str


def check_name(name: str) -> str:
    """The name if a tool of one's own may have it; raises ValueError."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"a tool's name has two parts, like 'shop:find_order', not {name!r}")
    if name.startswith(RESERVED):
        raise ValueError(f"the name '{name}' begins with a word that is weft's own: {', '.join(RESERVED)}")
    return name


class ToolRegistry:
    """Tools by name. Names are compared exactly: what looks the same is not the same."""

    def __init__(self) -> None:
        self._registered: dict[str, Registered] = {}

    def register(self, tool: Tool, *, source: str) -> None:
        """Add a tool. A second one of the name raises DuplicateTool, unless it is from the same place.

        That it may be: a module that is imported again makes its tools again.
        """
        name = tool.definition.name
        known = self._registered.get(name)
        if known is not None and known.source != source:
            raise DuplicateTool(name, source=known.source)
        self._registered[name] = Registered(tool, source)

    def find(self, name: str) -> Tool | None:
        """The tool of that name, or None."""
        known = self._registered.get(name)
        return None if known is None else known.tool

    def names(self) -> frozenset[str]:
        """The names of all."""
        return frozenset(self._registered)

    def __iter__(self) -> Iterator[Registered]:
        return iter([self._registered[name] for name in sorted(self._registered)])
