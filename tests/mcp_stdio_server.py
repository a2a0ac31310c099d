"""An MCP server that tests start as a program; what it does besides is told by its arguments."""

import os
import subprocess
import sys
import time
from pathlib import Path

from mcp.server.mcpserver import Image, MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("shop")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(structured_output=False)
def greet(name: str) -> str:
    """Say hello."""
    return f"Hello, {name}!"


@server.tool()
def environment() -> dict[str, str]:
    """Give all variables."""
    return dict(os.environ)


@server.tool(structured_output=False)
def place() -> str:
    """Say where it runs."""
    return f"{os.getpid()} {Path.cwd()}"


@server.tool(structured_output=False)
def fail(reason: str) -> str:
    """Fail."""
    raise ValueError(reason)


@server.tool(structured_output=False)
def die(marker: str) -> str:
    """Note that it was called, and be gone before answering."""
    with Path(marker).open("a") as file:
        file.write("called\n")
    os._exit(3)


@server.tool(structured_output=False, annotations=ToolAnnotations(read_only_hint=True))
def die_once(marker: str) -> str:
    """Be gone before answering, the first time."""
    if not Path(marker).exists():
        Path(marker).touch()
        os._exit(3)
    return "alive"


@server.tool(structured_output=False)
def picture() -> list[object]:
    """Give a text and an image."""
    return ["a picture:", Image(data=b"\x89PNG" * 10, format="png")]


@server.tool(structured_output=False)
def long(size: int) -> str:
    """Give a long text."""
    return "x" * size


@server.tool(structured_output=False)
def hang() -> str:
    """Never answer."""
    time.sleep(3600)
    return ""


@server.tool(structured_output=False)
def child() -> str:
    """Start a program that stays, and that does not see our input end."""
    return str(subprocess.Popen(["sleep", "3600"], stdin=subprocess.DEVNULL).pid)


@server.tool(structured_output=False)
def learn(name: str) -> str:
    """Have one more tool from now on."""

    def learned() -> str:
        """Something new."""
        return name

    server.add_tool(learned, name=name, structured_output=False)
    return "learned"


@server.tool(structured_output=False)
def forget(name: str) -> str:
    """Have one tool less from now on."""
    server.remove_tool(name)
    return "forgotten"


def main() -> None:
    sys.stderr.write("shop is open\n")
    if "--banner" in sys.argv:
        os.write(1, b"Welcome to the shop!\n")
    server.run("stdio")
    if "--stubborn" in sys.argv:
        time.sleep(3600)


if __name__ == "__main__":
    main()
