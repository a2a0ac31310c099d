"""MCP servers and their tools, `mcp:SERVER:TOOL`."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.evaluator.tools import ToolContext, ToolDefinition, ToolFailed
from weft.tools.mcp.config import InvalidServer, Server, read_servers
from weft.tools.mcp.connection import Connection, ConnectionLost, Patience
from weft.tools.mcp.process import GroupGuard, NoGuard

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult
    from mcp_types import Tool as WireTool


def value_of(result: "CallToolResult") -> Any:
    """The structured content if there is any, else the text; raises ToolFailed when the tool says it failed.

    What is no text (images, sound, files) is not passed on, and that is said.
    """
    parts = [part.model_dump(mode="json", by_alias=True, exclude_none=True) for part in result.content]
    text = "\n".join(_text(part) for part in parts)
    if result.is_error:
        raise ToolFailed(text or "the tool failed and did not say why")
    if result.structured_content is None:
        return text
    omitted = [_text(part) for part in parts if _is_omitted(part)]
    return (
        {"content": result.structured_content, "omitted": omitted} if omitted else result.structured_content
    )


def _is_omitted(part: dict[str, Any]) -> bool:
    return part["type"] != "text" and "text" not in part.get("resource", {})


def _text(part: dict[str, Any]) -> str:
    match part:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case {"type": "resource", "resource": {"uri": uri, "blob": str(blob)}}:
            return f"[file {uri} of about {len(blob) * 3 // 4} bytes is left out]"
        case {"type": "resource_link", "uri": uri}:
            return f"[link to {uri}]"
        case {"type": kind, "data": str(data)}:
            return f"[{part.get('mimeType', kind)} of about {len(data) * 3 // 4} bytes is left out]"
        case _:
            return f"[{part.get('type')} is left out]"


PREFIX = "mcp:"

MAX_TOOLS = 1000
"""How many tools of a server are taken: a list without an end must end."""

LIST_SECONDS = 60.0
"""How long a list of tools is taken to be true; newer servers do not tell when it changes."""

FAILURE_SECONDS = 3.0
"""How long a server that could not be had is not tried again: many tasks ask for it one after the other."""


class McpTool:
    """A tool of a server. It is taken to have effects: a server can say of itself what it likes."""

    def __init__(self, server: "McpServer", wire: "WireTool", *, is_believed: bool) -> None:
        self._server = server
        self._name = wire.name
        hints = wire.annotations
        is_read_only = hints is not None and hints.read_only_hint is True
        self.has_effects = not (is_believed and is_read_only)
        schema = wire.input_schema if isinstance(wire.input_schema, dict) else {}
        self.definition = ToolDefinition(
            name=f"{PREFIX}{server.name}:{wire.name}",
            description=wire.description or wire.title or wire.name,
            input_schema={"type": "object", **schema},
        )

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """What the server gives."""
        return await self._server.call(self._name, arguments, is_repeatable=not self.has_effects)


class McpServer:
    """A server that is connected to when it is first needed, once, and again when it has died."""

    def __init__(
        self,
        server: Server,
        environment: Mapping[str, str],
        guard: GroupGuard,
        patience: Patience,
        *,
        is_believed: bool = False,
    ) -> None:
        self.name = server.name
        self._is_believed = is_believed
        self._server = server
        self._environment = environment
        self._guard = guard
        self._patience = patience
        self._connection: Connection | None = None
        self._opening: asyncio.Task[Connection | ToolFailed] | None = None
        self._failure: ToolFailed | None = None
        self._failed_at = 0.0
        self._is_closed = False
        self._tools: dict[str, McpTool] = {}
        self._listed_at = 0.0

    @property
    def pid(self) -> int | None:
        """The process id of a server that is a program and runs."""
        return None if self._connection is None else self._connection.pid

    def known(self) -> Mapping[str, McpTool]:
        """The tools of the last list, by full name."""
        return self._tools

    async def tools(self, wanted: str | None = None) -> Mapping[str, McpTool]:
        """Its tools by full name; listed anew when they may have changed, or the wanted one is missing."""
        connection = await self._connected()
        is_old = time.monotonic() - self._listed_at > LIST_SECONDS
        if connection.has_new_tools or is_old or (wanted is not None and wanted not in self._tools):
            connection.has_new_tools = False
            try:
                listed = await connection.request(_all_tools)
            except (ConnectionLost, ToolFailed) as error:
                connection.has_new_tools = True
                raise ToolFailed(str(error)) from None
            found = [McpTool(self, wire, is_believed=self._is_believed) for wire in listed]
            self._tools = {tool.definition.name: tool for tool in reversed(found)}  # of two the first
            self._listed_at = time.monotonic()
        return self._tools

    async def call(self, name: str, arguments: dict[str, Any], *, is_repeatable: bool) -> Any:
        """What a tool gives. What a dying server may have done is asked for again only if it may be."""

        async def ask(client: "Client") -> Any:
            return await client.call_tool(name, arguments)

        for is_last in (False, True):
            connection = await self._connected()
            try:
                return value_of(await connection.request(ask))
            except ConnectionLost as error:
                if is_last or not (error.is_unseen or is_repeatable):
                    raise ToolFailed(str(error)) from None
        raise AssertionError("the last try returns or raises")

    async def close(self) -> None:
        """End the connection, and the server if it is a program. It is not connected to again."""
        self._is_closed = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait({self._opening})
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _connected(self) -> Connection:
        """A connection that was open just now; all who need one wait for the same opening."""
        if self._connection is not None and self._connection.is_open:
            return self._connection
        if self._failure is not None and time.monotonic() - self._failed_at < FAILURE_SECONDS:
            raise ToolFailed(str(self._failure))
        if self._opening is None and not self._is_closed:
            self._opening = asyncio.create_task(self._open(), name=f"weft-mcp-opening-{self.name}")
        opening = self._opening
        if opening is not None:
            # Not awaited itself: who is cancelled here must not end what others wait for.
            await asyncio.wait({opening})
        if opening is None or opening.cancelled():
            raise ToolFailed(f"MCP server '{self.name}': it was closed; look for the tool again")
        outcome = opening.result()
        if isinstance(outcome, ToolFailed):
            raise ToolFailed(str(outcome))
        return outcome

    async def _open(self) -> Connection | ToolFailed:
        """Connect. A failure is returned, for there may be nobody left to hear it."""
        try:
            if self._connection is not None:
                await self._connection.close()
                self._connection = None
            connection = Connection(self._server, self._environment, self._guard, self._patience)
            await connection.open()
        except ToolFailed as error:
            self._failure, self._failed_at = error, time.monotonic()
            return error
        finally:
            self._opening = None
        self._connection, self._failure = connection, None
        return connection


async def _all_tools(client: "Client") -> "list[WireTool]":
    found: list[WireTool] = []
    page = await client.list_tools()
    found.extend(page.tools)
    while page.next_cursor is not None and page.tools and len(found) < MAX_TOOLS:
        page = await client.list_tools(cursor=page.next_cursor)
        found.extend(page.tools)
    return found[:MAX_TOOLS]


class McpServers:
    """The servers of a file, which is read when the first is needed."""

    def __init__(
        self,
        path: Path,
        environment: Mapping[str, str],
        *,
        guard: GroupGuard | None = None,
        patience: Patience | None = None,
        believed: frozenset[str] = frozenset(),
    ) -> None:
        self.path = path
        self._believed = believed
        self._environment = environment
        self._guard = guard or NoGuard()
        self._patience = patience or Patience()
        self._servers: dict[str, McpServer | InvalidServer] | None = None

    def all(self) -> Mapping[str, McpServer | InvalidServer]:
        """The servers by name, or what is wrong with one; raises InvalidServer when the file is wrong."""
        if self._servers is None:
            self._servers = {
                name: server
                if isinstance(server, InvalidServer)
                else McpServer(
                    server,
                    self._environment,
                    self._guard,
                    self._patience,
                    is_believed=name in self._believed,
                )
                for name, server in read_servers(self.path, self._environment).items()
            }
        return self._servers

    def names(self) -> frozenset[str]:
        """The tools of the servers that are connected."""
        servers = (self._servers or {}).values()
        return frozenset(name for one in servers if isinstance(one, McpServer) for name in one.known())

    async def find(self, name: str) -> McpTool | None:
        """The tool of that full name; raises ToolFailed when its server cannot be had."""
        server_name, colon, _ = name.removeprefix(PREFIX).partition(":")
        if not name.startswith(PREFIX) or not colon:
            return None
        try:
            server = self.all().get(server_name)
        except InvalidServer as error:
            raise ToolFailed(error.message) from None
        if server is None:
            return None
        if isinstance(server, InvalidServer):
            raise ToolFailed(server.message)
        return (await server.tools(name)).get(name)

    async def close(self) -> None:
        """End all of them. Whoever looks for a tool afterwards has the file read and servers started anew."""
        running = [one for one in (self._servers or {}).values() if isinstance(one, McpServer)]
        self._servers = None
        await asyncio.gather(*(server.close() for server in running))
