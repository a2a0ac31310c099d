"""MCP servers and their tools, `mcp:SERVER:TOOL`."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.evaluator.tools import ToolContext, ToolDefinition, ToolFailed
from weft.tools.mcp.config import InvalidServer, Server, read_servers
from weft.tools.mcp.connection import Connection, ConnectionLost, ServerTimeouts

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult
    from mcp_types import Tool as WireTool


def value_of(result: "CallToolResult") -> Any:
    """Return the structured content of a result, or else its text. Raise ToolFailed if the tool failed.

    Images, audio and files are replaced by a note.
    """
    parts = [part.model_dump(mode="json", by_alias=True, exclude_none=True) for part in result.content]
    text = "\n".join(_text(part) for part in parts)
    if result.is_error:
        raise ToolFailed(text or "the tool failed without a message")
    if result.structured_content is None:
        return text
    omitted = [
        _text(part) for part in parts if part["type"] != "text" and "text" not in part.get("resource", {})
    ]
    return (
        {"content": result.structured_content, "omitted": omitted} if omitted else result.structured_content
    )


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
"""Maximum number of tools of a server; a paginated list might never end."""

LIST_SECONDS = 60.0
"""How long a list of tools is cached: a server need not announce that it has changed."""

FAILURE_SECONDS = 3.0
"""How long calls fail at once after a failed connection: many tasks may call the same server in a row."""


class McpTool:
    """A tool of a server. It is assumed to have effects, unless the settings trust the server's hints."""

    def __init__(self, server: "McpServer", wire: "WireTool", *, is_trusted: bool) -> None:
        self._server = server
        self._name = wire.name
        hints = wire.annotations
        is_read_only = hints is not None and hints.read_only_hint is True
        self.has_effects = not (is_trusted and is_read_only)
        schema = wire.input_schema if isinstance(wire.input_schema, dict) else {}
        self.definition = ToolDefinition(
            name=f"{PREFIX}{server.name}:{wire.name}",
            description=wire.description or wire.title or wire.name,
            input_schema={"type": "object", **schema},
        )

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        return await self._server.call(self._name, arguments, is_repeatable=not self.has_effects)


class McpServer:
    """A server with one shared connection, opened on first use and reopened after a failure."""

    def __init__(
        self,
        server: Server,
        environment: Mapping[str, str],
        timeouts: ServerTimeouts,
        *,
        is_trusted: bool = False,
    ) -> None:
        self.name = server.name
        self._is_trusted = is_trusted
        self._server = server
        self._environment = environment
        self._timeouts = timeouts
        self._connection: Connection | None = None
        self._opening: asyncio.Task[Connection | ToolFailed] | None = None
        self._failure: ToolFailed | None = None
        self._failed_at = 0.0
        self._is_closed = False
        self._tools: dict[str, McpTool] = {}
        self._listed_at = 0.0

    @property
    def pid(self) -> int | None:
        return None if self._connection is None else self._connection.pid

    def known(self) -> Mapping[str, McpTool]:
        """Return the tools of the last list, by full name."""
        return self._tools

    async def tools(self, wanted: str | None = None) -> Mapping[str, McpTool]:
        """Return the tools by full name; list them again if they may have changed or `wanted` is missing."""
        connection = await self._connect()
        is_old = time.monotonic() - self._listed_at > LIST_SECONDS
        if connection.has_new_tools or is_old or (wanted is not None and wanted not in self._tools):
            connection.has_new_tools = False
            try:
                listed = await connection.request(_all_tools)
            except (ConnectionLost, ToolFailed) as error:
                connection.has_new_tools = True
                raise ToolFailed(str(error)) from None
            found = [McpTool(self, wire, is_trusted=self._is_trusted) for wire in listed]
            # Reversed, so that the first of two tools with the same name is kept.
            self._tools = {tool.definition.name: tool for tool in reversed(found)}
            self._listed_at = time.monotonic()
        return self._tools

    async def call(self, name: str, arguments: dict[str, Any], *, is_repeatable: bool) -> Any:
        """Call a tool.

        Retry once after a lost connection, if the call is repeatable or was certainly not performed.
        """

        async def send(client: "Client") -> Any:
            return await client.call_tool(name, arguments)

        for is_last in (False, True):
            connection = await self._connect()
            try:
                return value_of(await connection.request(send))
            except ConnectionLost as error:
                if is_last or not (error.is_unseen or is_repeatable):
                    raise ToolFailed(str(error)) from None
        raise AssertionError("the last attempt returns or raises")

    async def close(self) -> None:
        """Close the connection, and end the process of a stdio server. It cannot be reopened."""
        self._is_closed = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait({self._opening})
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _connect(self) -> Connection:
        """Return the open connection, or open one; concurrent callers wait for the same opening."""
        if self._connection is not None and self._connection.is_open:
            return self._connection
        if self._failure is not None and time.monotonic() - self._failed_at < FAILURE_SECONDS:
            raise ToolFailed(str(self._failure))
        if self._opening is None and not self._is_closed:
            self._opening = asyncio.create_task(self._open(), name=f"weft-mcp-opening-{self.name}")
        opening = self._opening
        if opening is not None:
            # asyncio.wait, because awaiting the task itself would cancel it together with this caller.
            await asyncio.wait({opening})
        if opening is None or opening.cancelled():
            raise ToolFailed(f"MCP server '{self.name}': it was closed; find the tool again")
        outcome = opening.result()
        if isinstance(outcome, ToolFailed):
            raise ToolFailed(str(outcome))
        return outcome

    async def _open(self) -> Connection | ToolFailed:
        """Connect. A failure is returned, as an exception might never be retrieved from the task."""
        try:
            if self._connection is not None:
                await self._connection.close()
                self._connection = None
            connection = Connection(self._server, self._environment, self._timeouts)
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
    """The servers of a configuration file, which is read on first use."""

    def __init__(
        self,
        path: Path,
        environment: Mapping[str, str],
        *,
        timeouts: ServerTimeouts | None = None,
        trusted: frozenset[str] = frozenset(),
    ) -> None:
        self.path = path
        self._trusted = trusted
        self._environment = environment
        self._timeouts = timeouts or ServerTimeouts()
        self._servers: dict[str, McpServer | InvalidServer] | None = None

    def all(self) -> Mapping[str, McpServer | InvalidServer]:
        """Return the servers, or their errors, by name. Raise InvalidServer if the whole file is invalid."""
        if self._servers is None:
            self._servers = {
                name: server
                if isinstance(server, InvalidServer)
                else McpServer(
                    server,
                    self._environment,
                    self._timeouts,
                    is_trusted=name in self._trusted,
                )
                for name, server in read_servers(self.path, self._environment).items()
            }
        return self._servers

    def names(self) -> frozenset[str]:
        servers = (self._servers or {}).values()
        return frozenset(name for one in servers if isinstance(one, McpServer) for name in one.known())

    async def find(self, name: str) -> McpTool | None:
        """Return the tool with this full name, or None. Raise ToolFailed if its server is unavailable."""
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
        """Close all servers. A later `find` reads the file again and starts new servers."""
        running = [one for one in (self._servers or {}).values() if isinstance(one, McpServer)]
        self._servers = None
        await asyncio.gather(*(server.close() for server in running))
