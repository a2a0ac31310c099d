"""What tests of MCP build: projects with servers, and a server over HTTP."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn

from weft.config.sections import ToolsSettings
from weft.evaluator.tools import ToolContext
from weft.tools import Toolbox, open_toolbox
from weft.tools.mcp.connection import ServerTimeouts

SHOP = Path(__file__).parent / "mcp_stdio_server.py"


def shop(*arguments: str, **more: Any) -> dict[str, Any]:
    """Return the entry of our own server, as a command."""
    return {"command": sys.executable, "args": [str(SHOP), *arguments], **more}


def script(text: str) -> dict[str, Any]:
    """Return the entry of a server that is a few lines of Python."""
    return {"command": sys.executable, "args": ["-c", text]}


@asynccontextmanager
async def toolbox_with(
    folder: Path,
    timeouts: ServerTimeouts | None = None,
    settings: ToolsSettings | None = None,
    **servers: dict[str, Any],
) -> AsyncIterator[Toolbox]:
    """Yield the tools of a project with these servers, and end the servers with the block."""
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    toolbox = open_toolbox(settings or ToolsSettings(), folder, dict(os.environ), timeouts=timeouts)
    try:
        yield toolbox
    finally:
        await toolbox.close()


async def call(toolbox: Toolbox, name: str, /, **arguments: Any) -> Any:
    """Call a tool of the server `shop`."""
    tool = await toolbox.find(f"mcp:shop:{name}")
    assert tool is not None, name
    return await tool.call(arguments, ToolContext())


@asynccontextmanager
async def served(app: Any, port: int = 0) -> AsyncIterator[int]:
    """Serve an ASGI application on loopback, and yield its port."""
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", ws="none")
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    sock = config.bind_socket()
    running = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        yield int(sock.getsockname()[1])
    finally:
        server.should_exit = True
        server.force_exit = True
        await running
        sock.close()
