"""A connection to an MCP server, held by an asyncio task of its own.

The SDK's client opens cancel scopes when it is entered, which must be left in the same task, but the toolbox
is usually closed by another task than the one that first calls a tool. Requests may come from any task.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from weft.aio import run_blocking
from weft.errors import MissingExtra, text_of
from weft.evaluator.tools import ToolFailed, ToolMissesDependency
from weft.secrets.truncation import cut
from weft.tools.mcp.config import HttpServer, Server

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client._transport import TransportStreams

    from weft.tools.mcp.transport import ServerProcess

T = TypeVar("T")

log = logging.getLogger(__name__)


class ServerTimeouts(Struct, frozen=True, kw_only=True):
    """Time limits for a server."""

    connect_seconds: float = 30.0
    """For the handshake; some servers download themselves from a registry first."""
    call_seconds: float = 300.0
    """For the response to a request."""
    end_seconds: float = 10.0
    """For closing the connection; longer than all grace periods of the process together."""


class ConnectionLost(Exception):
    """The connection ended before the response; the request may have been performed."""

    def __init__(self, message: str, *, is_unseen: bool = False) -> None:
        super().__init__(message)
        self.is_unseen = is_unseen
        """True if the server certainly did not perform the request."""


class Connection:
    """An open session with a server."""

    def __init__(self, server: Server, environment: Mapping[str, str], timeouts: ServerTimeouts) -> None:
        self._server = server
        self._environment = environment
        self._timeouts = timeouts
        self._process: ServerProcess | None = None
        self._client: Client | None = None
        self._fault: str | None = None
        """Why the connection ended, for messages."""
        self._over = asyncio.Event()
        """Set to end the connection, and when it has ended."""
        self._ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.has_new_tools = True
        """True if the server's list of tools must be read again."""

    @property
    def is_open(self) -> bool:
        return self._client is not None and not self._over.is_set()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def open(self) -> None:
        """Connect. If that fails, clean up and raise ToolFailed."""
        try:
            # In a thread, and before the server's time limit starts, because the import may take seconds.
            await run_blocking(_import_sdk, name="weft-import")
        except ImportError:
            missing = MissingExtra(extra="mcp", purpose="an MCP server")
            raise ToolMissesDependency(self._message(missing.message)) from None
        self._task = asyncio.create_task(self._run(), name=f"weft-mcp-{self._server.name}")
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait(
                {self._task, ready},
                timeout=self._timeouts.connect_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            ready.cancel()
            if not self._ready.is_set():
                await self._end(is_patient=False)
        if not self._ready.is_set():
            seconds = f"{self._timeouts.connect_seconds:g}"
            raise ToolFailed(self._failure(f"connection_error: it did not answer within {seconds} s"))

    async def request(self, send: "Callable[[Client], Awaitable[T]]") -> T:
        """Send a request and return the response. Raise ToolFailed or ConnectionLost."""
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, PARSE_ERROR

        if self._client is None or self._over.is_set():
            raise ConnectionLost(self._failure("connection_error: it has ended"), is_unseen=True)
        try:
            async with asyncio.timeout(self._timeouts.call_seconds):
                return await send(self._client)
        except TimeoutError:
            seconds = f"{self._timeouts.call_seconds:g}"
            raise ToolFailed(
                self._message(f"connection_error: it did not answer within {seconds} s")
            ) from None
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                self._over.set()
                raise ConnectionLost(self._failure(f"connection_error: {error.message}")) from None
            if error.message == "Session terminated":  # the SDK's message for 404: the session is unknown
                self._over.set()
                raise ConnectionLost(
                    self._message("connection_error: it was restarted"), is_unseen=True
                ) from None
            if error.code == PARSE_ERROR or error.message.startswith("Unexpected content type"):
                raise ToolFailed(self._message(f"protocol_error: {_short(error.message)}")) from None
            raise ToolFailed(self._message(_short(error.message))) from None
        except (ValueError, RuntimeError) as error:
            # Raised by the SDK for a response that does not match the protocol or the tool's schema.
            raise ToolFailed(self._message(f"protocol_error: {_short(text_of(error))}")) from None
        except Exception as error:
            self._over.set()
            raise ConnectionLost(self._failure(f"connection_error: {_short(text_of(error))}")) from None

    async def close(self) -> None:
        """End the session, and the process of a stdio server."""
        await self._end(is_patient=True)

    def _failure(self, otherwise: str) -> str:
        """Return why the connection ended (`otherwise` if unknown), with the last line on standard error."""
        fault, stderr, process = self._fault, "", self._process
        if process is not None:
            # A line that is not a message explains a failed handshake, but not a later end.
            odd_line = None if self._ready.is_set() else process.odd_line
            fault = odd_line or process.fault or fault
            stderr = f"; it said: {process.last_words}" if process.last_words else ""
        return self._message(f"{fault or otherwise}{stderr}")

    def _message(self, text: str) -> str:
        return f"MCP server '{self._server.name}': {text}"

    async def _run(self) -> None:
        try:
            from mcp import Client
            from mcp_types import Implementation

            async with Client(
                self._streams(),
                cache=None,
                client_info=Implementation(name="weft", version="0.1.0"),
                message_handler=self._on_message,
            ) as client:
                self._client = client
                self._ready.set()
                await self._over.wait()
        except Exception as error:
            self._fault = self._fault or f"connection_error: {_short(text_of(_innermost(error)))}"
            log.info("%s", self._failure(""), extra={"action": "mcp_failed"})
        finally:
            self._over.set()

    @asynccontextmanager
    async def _streams(self) -> "AsyncIterator[TransportStreams]":
        from weft.tools.mcp.transport import ServerProcess, http_streams, stdio_streams

        if isinstance(self._server, HttpServer):
            async with http_streams(self._server, self._timeouts.call_seconds) as streams:
                yield streams
            return
        try:
            process = self._process = ServerProcess(self._server, self._environment)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self._fault = f"connection_error: '{self._server.command}' cannot be started: {reason}"
            raise
        try:
            async with stdio_streams(process, self._over.set) as streams:
                yield streams
        finally:
            await process.end(process.grace_seconds)

    async def _on_message(self, message: Any) -> None:
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self.has_new_tools = True

    async def _end(self, *, is_patient: bool) -> None:
        """Cancel the task; if `is_patient`, only if it has not ended by itself after `end_seconds`."""
        self._over.set()
        task = self._task
        if task is None or task.done():
            return
        if is_patient:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timeouts.end_seconds):
                    await asyncio.shield(asyncio.wait({task}))
        if not task.done():
            if self._process is not None:
                self._process.grace_seconds = 0.0
            task.cancel()
            await asyncio.wait({task}, timeout=self._timeouts.end_seconds)


def _import_sdk() -> None:
    """Import the SDK and silence its logging; called only when a server is used, because it is slow."""
    import mcp  # noqa: F401

    import weft.tools.mcp.transport  # noqa: F401

    # Without any handler Python prints warnings to standard error. Failed calls report the same problems
    # themselves; an application that configures logging still gets the SDK's warnings.
    for name in ("mcp", "client"):
        sdk = logging.getLogger(name)
        if not sdk.handlers:
            sdk.addHandler(logging.NullHandler())


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _short(text: str) -> str:
    return " ".join(cut(text, 300).split())
