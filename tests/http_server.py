"""HTTP servers on the loopback address that answer exactly what a test says, good or bad."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple


class Request(NamedTuple):
    """What a server got."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


Answer = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """A running server and the requests it got."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.requests: list[Request] = []
        self.connections = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            request = await read_request(reader)
            self.requests.append(request)
            await self._answer(request, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # The client has seen enough.
        finally:
            writer.close()


async def read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
    method, target, _ = head[0].split(" ")
    headers = dict(line.split(": ", 1) for line in head[1:] if line)
    headers = {name.lower(): value for name, value in headers.items()}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, target, headers, body)


@asynccontextmanager
async def serving(
    answer: Answer, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Server]:
    """Run a server while the block runs."""
    server = Server(answer)
    listening = await asyncio.start_server(server.handle, host, 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        await listening.wait_closed()


async def send(
    writer: asyncio.StreamWriter,
    body: bytes = b"",
    *,
    status: str = "200 OK",
    headers: tuple[str, ...] = ("Content-Type: text/plain",),
) -> None:
    """One whole answer."""
    head = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "Connection: close", "", ""]
    writer.write("\r\n".join(head).encode("latin-1") + body)
    await writer.drain()


def answering(body: bytes = b"", *, status: str = "200 OK", headers: tuple[str, ...] = ()) -> Answer:
    """Return a function that always sends the same response."""

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        await send(writer, body, status=status, headers=headers)

    return answer
