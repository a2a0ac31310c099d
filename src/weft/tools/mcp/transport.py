"""How messages reach an MCP server: the streams that the SDK's client speaks over.

Imported only when a server is needed: the SDK takes half a second to import.
"""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import httpx2
import msgspec
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

from weft.secrets.truncation import cut
from weft.tools.mcp.config import HttpServer
from weft.tools.mcp.process import ServerProcess

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""Longest message of a server: a hundred times what a model takes in."""

MAX_BAD_LINES = 100
"""How many lines of a server may be no messages: some print a banner, none prints a book."""

LAST_LINES_SECONDS = 1.0
"""How long the last lines of a program are waited for that reads no more: they may say why."""

HTTP_SECONDS = 30.0
"""How long to wait for a connection, or to write."""

log = logging.getLogger(__name__)

OnFault = Callable[[str], None]
"""Is told why a connection ended, in words."""


@asynccontextmanager
async def stdio_streams(
    process: ServerProcess, on_fault: OnFault, on_odd_line: OnFault
) -> "AsyncIterator[TransportStreams]":
    """Streams to a program: a message is a line of JSON. Of lines that are none a few are passed over."""
    to_us, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_us = anyio.create_memory_object_stream[SessionMessage](0)

    has_ended = anyio.Event()

    async def read() -> None:
        async with to_us:
            async for message in _Lines(process, on_fault, on_odd_line):
                try:
                    await to_us.send(message)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return
            has_ended.set()

    async def write() -> None:
        async with from_us:
            async for message in from_us:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await process.write(text.encode("utf-8", "replace") + b"\n")
                except (OSError, RuntimeError):
                    with anyio.move_on_after(LAST_LINES_SECONDS):
                        await has_ended.wait()
                    if not has_ended.is_set():
                        on_fault("connection_error: it does not read any more")
                    await to_us.aclose()
                    return

    async with anyio.create_task_group() as tasks, incoming, outgoing:
        tasks.start_soon(process.log_errors)
        tasks.start_soon(read)
        tasks.start_soon(write)
        yield incoming, outgoing
        tasks.cancel_scope.cancel()


class _Lines:
    """The messages of a program, until it ends or writes what cannot be taken."""

    def __init__(self, process: ServerProcess, on_fault: OnFault, on_odd_line: OnFault) -> None:
        self._process = process
        self._on_fault = on_fault
        self._on_odd_line = on_odd_line
        self._good = 0
        self._bad = 0
        self._odd = ""

    async def __aiter__(self) -> AsyncIterator[SessionMessage]:
        rest = bytearray()
        while piece := await self._process.read():
            rest += piece
            if b"\n" in piece:
                *lines, last = bytes(rest).split(b"\n")
                rest = bytearray(last)
            else:
                lines = []
            if max(map(len, [rest, *lines])) > MAX_MESSAGE_BYTES:
                self._on_fault(f"protocol_error: it sent a message of more than {MAX_MESSAGE_BYTES} bytes")
                return
            for line in lines:
                message = self._message(line)
                if message is not None:
                    yield message
            if self._bad > MAX_BAD_LINES:
                self._on_fault(self._odd)
                return
        await self._process.hear_out()
        # Of a program that wrote no message at all its lines say more.
        self._on_fault(self._odd if self._bad and not self._good else "connection_error: it has ended")

    def _message(self, line: bytes) -> SessionMessage | None:
        if not line.strip():
            return None
        try:
            message = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            self._bad += 1
            shown = cut(line.decode("utf-8", "replace"), 80)
            log.info("no message of MCP: %s", shown, extra={"action": "mcp_bad_line"})
            self._odd = f"protocol_error: it writes what is no message of MCP: {shown!r}"
            self._on_odd_line(self._odd)
            return _as_error(line)
        self._good += 1
        return message


def _as_error(line: bytes) -> SessionMessage | None:
    """The error that a wrong answer stands for: who waits for it need not wait until time is up."""
    try:
        wrong = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(wrong, dict) or "method" in wrong or not isinstance(wrong.get("id"), int | str):
        return None
    error = ErrorData(code=PARSE_ERROR, message="its answer is no message of MCP")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=wrong["id"], error=error))


class _Limited(httpx2.AsyncByteStream):
    """A body of bounded length."""

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
    """Bounds every body but a stream of events, whose single events the SDK bounds."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        is_events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        if not is_events and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Limited(response.stream)
        return response


@asynccontextmanager
async def http_streams(server: HttpServer, read_seconds: float) -> "AsyncIterator[TransportStreams]":
    """Streams to a URL. Redirects stay on its origin: what the headers hold is for nobody else."""
    timeout = httpx2.Timeout(HTTP_SECONDS, read=read_seconds)
    async with (
        httpx2.AsyncClient(transport=_LimitedTransport(), headers=server.headers, timeout=timeout) as client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
        ) as streams,
    ):
        yield streams
