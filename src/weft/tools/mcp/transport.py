"""Transports to MCP servers: the streams that the SDK's client uses.

Imported only when a server is needed, as the SDK takes half a second to import.
"""

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import httpx2
import msgspec
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

from weft.limits import decode_text
from weft.process.group import ProcessGroup, require_pipe, start_process
from weft.process.pipes import InputPipe, LinePipe, StreamPipe
from weft.secrets.truncation import cut
from weft.tools.mcp.config import HttpServer, StdioServer

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""Maximum size of a server's message: a hundred times what a model reads."""

MAX_BAD_LINES = 100
"""Maximum number of lines that are not messages: some servers print a banner."""

LAST_LINES_SECONDS = 1.0
"""How long to wait for the last lines of a process that has stopped reading: they may contain the reason."""

HTTP_SECONDS = 30.0
"""Timeout for connecting and for writing."""

PASSED_ON = frozenset({"PATH", "HOME", "LANG", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "USER"})
"""Variables of weft's environment that are passed on, with LC_*. Others may contain keys and tokens."""

GRACE_SECONDS = 2.0
"""How long a server may take to end after its input is closed, and again after SIGTERM."""

LAST_WORDS_SECONDS = 0.5
"""How long to read standard error after standard output has ended: it often says why the server ended."""

MAX_WORDS_CHARACTERS = 300
"""Maximum length of the standard error that is repeated in an error message."""

log = logging.getLogger(__name__)


class ServerProcess(ProcessGroup):
    """A running server, and the processes that it started in its group.

    The SDK's own transport limits nothing and leaves processes behind: docs/explanation/decisions/0065.
    """

    def __init__(self, server: StdioServer, environment: Mapping[str, str]) -> None:
        """Start the process. Raise OSError and ValueError like Popen."""
        process = start_process(
            [server.command, *server.args], env={**_inherited(environment), **server.env}, cwd=server.cwd
        )
        self._name = server.name
        self.grace_seconds = GRACE_SECONDS
        self.last_words = ""
        """Last line on standard error."""
        self.fault: str | None = None
        """Why the connection ended, for messages."""
        self.odd_line: str | None = None
        """The fault to report if the handshake fails: a line that is not an MCP message."""
        self._valid_lines = 0
        self._invalid_lines = 0
        self.stdin = InputPipe(require_pipe(process.stdin))
        self._stdout = StreamPipe(require_pipe(process.stdout))
        self._stderr = LinePipe(require_pipe(process.stderr), self._log_line)
        super().__init__(process, outputs=(self._stdout, self._stderr), stdin=self.stdin)

    async def _before_signals(self, grace_seconds: float) -> None:
        self.stdin.close()
        with anyio.move_on_after(grace_seconds):
            await self._exited.wait()

    async def messages(self) -> AsyncIterator[SessionMessage]:
        """Yield messages until the process ends or violates the protocol, which `fault` then says."""
        remaining = bytearray()
        while piece := await self._stdout.read():
            remaining += piece
            lines = []
            if b"\n" in piece:
                *lines, last = bytes(remaining).split(b"\n")
                remaining = bytearray(last)
            if max(map(len, [remaining, *lines])) > MAX_MESSAGE_BYTES:
                self.fault = f"protocol_error: it sent a message of more than {MAX_MESSAGE_BYTES} bytes"
                return
            for line in lines:
                message = self._message(line)
                if message is not None:
                    yield message
            if self._invalid_lines > MAX_BAD_LINES:
                self.fault = self.odd_line
                return
        with anyio.move_on_after(LAST_WORDS_SECONDS):
            await self._stderr.is_closed.wait()
        # If the process never wrote a valid message, its last invalid line explains more.
        self.fault = None if self._valid_lines else self.odd_line
        self.fault = self.fault or "connection_error: it has ended"

    def _message(self, line: bytes) -> SessionMessage | None:
        if not line.strip():
            return None
        try:
            message = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            self._invalid_lines += 1
            shown = cut(decode_text(line), 80)
            log.info("not an MCP message: %s", shown, extra={"action": "mcp_bad_line"})
            self.odd_line = f"protocol_error: it wrote a line that is not an MCP message: {shown!r}"
            return _as_error(line)
        self._valid_lines += 1
        return message

    def _log_line(self, line: bytes) -> None:
        text = decode_text(line).strip()
        if text:
            self.last_words = cut(text, MAX_WORDS_CHARACTERS)
            log.info("%s: %s", self._name, text, extra={"action": "mcp_stderr", "mcp_server": self._name})


def _inherited(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name in PASSED_ON or name.startswith("LC_")}


@asynccontextmanager
async def stdio_streams(
    process: ServerProcess, on_end: Callable[[], None]
) -> "AsyncIterator[TransportStreams]":
    """Yield streams to a process. A message is a line of JSON; a few other lines are tolerated."""
    to_us, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_us = anyio.create_memory_object_stream[SessionMessage](0)

    has_ended = anyio.Event()

    async def read() -> None:
        async with to_us:
            async for message in process.messages():
                try:
                    await to_us.send(message)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return
            has_ended.set()
            on_end()

    async def write() -> None:
        async with from_us:
            async for message in from_us:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await process.stdin.write(text.encode() + b"\n")
                except OSError:
                    with anyio.move_on_after(LAST_LINES_SECONDS):
                        await has_ended.wait()
                    if not has_ended.is_set():
                        process.fault = "connection_error: it no longer reads its input"
                        on_end()
                    await to_us.aclose()
                    return

    async with anyio.create_task_group() as tasks, incoming, outgoing:
        tasks.start_soon(read)
        tasks.start_soon(write)
        yield incoming, outgoing
        tasks.cancel_scope.cancel()


def _as_error(line: bytes) -> SessionMessage | None:
    """Return an error response for an invalid response, so that its caller need not wait for the timeout."""
    try:
        wrong = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(wrong, dict) or "method" in wrong or not isinstance(wrong.get("id"), int | str):
        return None
    error = ErrorData(code=PARSE_ERROR, message="its response is not an MCP message")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=wrong["id"], error=error))


class _LimitedBody(httpx2.AsyncByteStream):
    """Response body of limited length."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._stream:
            size += len(piece)
            if size > MAX_MESSAGE_BYTES:
                raise httpx2.StreamError(f"more than {MAX_MESSAGE_BYTES} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


class _LimitedTransport(httpx2.AsyncHTTPTransport):
    """Limits response bodies except event streams, where the SDK limits each event."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        is_events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        if not is_events and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _LimitedBody(response.stream)
        return response


@asynccontextmanager
async def http_streams(server: HttpServer, read_seconds: float) -> "AsyncIterator[TransportStreams]":
    """Yield streams to a URL. The SDK keeps redirects on its origin, as the headers may contain secrets."""
    timeout = httpx2.Timeout(HTTP_SECONDS, read=read_seconds)
    async with (
        httpx2.AsyncClient(transport=_LimitedTransport(), headers=server.headers, timeout=timeout) as client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
        ) as streams,
    ):
        yield streams
