"""A connection to an MCP server, in a task of its own.

The SDK's client opens cancel scopes when it is entered, which must be left in the same task: whoever calls a
tool first is another task than who closes the toolbox. Requests may come from any task.
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
from weft.tools.mcp.config import HttpServer, Server, StdioServer
from weft.tools.mcp.process import GroupGuard, ServerProcess

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client._transport import TransportStreams

T = TypeVar("T")

log = logging.getLogger(__name__)


class Patience(Struct, frozen=True, kw_only=True):
    """How long to wait for a server."""

    connect_seconds: float = 30.0
    """Until it has said hello: some fetch themselves from a registry first."""
    call_seconds: float = 300.0
    """Until it has answered."""
    end_seconds: float = 10.0
    """Until it has ended; more than a program has altogether."""


class ConnectionLost(Exception):
    """The connection ended before an answer came; whether the server did something cannot be said."""

    def __init__(self, message: str, *, is_unseen: bool = False) -> None:
        super().__init__(message)
        self.is_unseen = is_unseen
        """Whether the server certainly did nothing."""


class Connection:
    """An open session with a server."""

    def __init__(
        self, server: Server, environment: Mapping[str, str], guard: GroupGuard, patience: Patience
    ) -> None:
        self._server = server
        self._environment = environment
        self._guard = guard
        self._patience = patience
        self._process: ServerProcess | None = None
        self._client: Client | None = None
        self._fault: str | None = None
        self._odd_line: str | None = None
        self._over = asyncio.Event()
        self._ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.has_new_tools = True
        """Whether the server's list of tools is to be read again."""

    @property
    def is_open(self) -> bool:
        """Whether requests can be made."""
        return self._client is not None and not self._over.is_set()

    @property
    def pid(self) -> int | None:
        """The process id of a server that is a program."""
        return None if self._process is None else self._process.pid

    async def open(self) -> None:
        """Connect; raises ToolFailed, and nothing is left behind."""
        try:
            # In a thread, and before the server's time begins to run: the import takes seconds.
            await run_blocking(_import_sdk, name="weft-import")
        except ImportError:
            missing = MissingExtra(extra="mcp", purpose="an MCP server")
            raise ToolMissesDependency(self._told(missing.message)) from None
        self._task = asyncio.create_task(self._run(), name=f"weft-mcp-{self._server.name}")
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait(
                {self._task, ready},
                timeout=self._patience.connect_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            ready.cancel()
            if not self._ready.is_set():
                await self._end(is_patient=False)
        if not self._ready.is_set():
            seconds = f"{self._patience.connect_seconds:g}"
            raise ToolFailed(self.words(f"connection_error: it did not answer within {seconds} s"))

    async def request(self, ask: "Callable[[Client], Awaitable[T]]") -> T:
        """What the server answers; raises ToolFailed or ConnectionLost."""
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, PARSE_ERROR

        if self._client is None or self._over.is_set():
            raise ConnectionLost(self.words("connection_error: it has ended"), is_unseen=True)
        try:
            async with asyncio.timeout(self._patience.call_seconds):
                return await ask(self._client)
        except TimeoutError:
            seconds = f"{self._patience.call_seconds:g}"
            raise ToolFailed(self._told(f"connection_error: it did not answer within {seconds} s")) from None
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                self._over.set()
                raise ConnectionLost(self.words(f"connection_error: {error.message}")) from None
            if error.message == "Session terminated":  # the SDK's words for 404: it knows us no more
                self._over.set()
                raise ConnectionLost(self._told("connection_error: it began anew"), is_unseen=True) from None
            if error.code == PARSE_ERROR or error.message.startswith("Unexpected content type"):
                raise ToolFailed(self._told(f"protocol_error: {_short(error.message)}")) from None
            raise ToolFailed(self._told(_short(error.message))) from None
        except (ValueError, RuntimeError) as error:
            # What the SDK makes of an answer that does not fit the protocol or the tool's own schema.
            raise ToolFailed(self._told(f"protocol_error: {_short(text_of(error))}")) from None
        except Exception as error:
            self._over.set()
            raise ConnectionLost(self.words(f"connection_error: {_short(text_of(error))}")) from None

    async def close(self) -> None:
        """End the session, and the server if it is a program."""
        await self._end(is_patient=True)

    def words(self, otherwise: str) -> str:
        """Why the connection ended, for who called."""
        # A line that was no message explains why it never said hello, not why it ended later.
        fault = self._fault if self._ready.is_set() else self._odd_line or self._fault
        said = f"; it said: {self._process.last_words}" if self._process and self._process.last_words else ""
        return self._told(f"{fault or otherwise}{said}")

    def _told(self, what: str) -> str:
        return f"MCP server '{self._server.name}': {what}"

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
            self._fault = (
                self._fault or self._odd_line or f"connection_error: {_short(text_of(_innermost(error)))}"
            )
            log.info("%s", self._told(self._fault), extra={"action": "mcp_failed"})
        finally:
            self._over.set()

    @asynccontextmanager
    async def _streams(self) -> "AsyncIterator[TransportStreams]":
        from weft.tools.mcp.transport import http_streams, stdio_streams

        if isinstance(self._server, HttpServer):
            async with http_streams(self._server, self._patience.call_seconds) as streams:
                yield streams
            return
        process = self._process = self._start(self._server)
        try:
            await process.open()
            async with stdio_streams(process, self._on_end, self._on_odd_line) as streams:
                yield streams
        finally:
            await process.end()

    def _start(self, server: StdioServer) -> ServerProcess:
        try:
            return ServerProcess.start(server, self._environment, self._guard)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self._fault = f"connection_error: '{server.command}' cannot be started: {reason}"
            raise

    def _on_end(self, fault: str) -> None:
        self._fault = fault
        if self._ready.is_set():
            self._over.set()

    def _on_odd_line(self, fault: str) -> None:
        self._odd_line = fault

    async def _on_message(self, message: Any) -> None:
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self.has_new_tools = True

    async def _end(self, *, is_patient: bool) -> None:
        """End the task: it leaves by itself, or is cancelled when it does not."""
        self._over.set()
        task = self._task
        if task is None or task.done():
            return
        if is_patient:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience.end_seconds):
                    await asyncio.shield(asyncio.wait({task}))
        if not task.done():
            if self._process is not None:
                self._process.grace_seconds = 0.0
            task.cancel()
            await asyncio.wait({task}, timeout=self._patience.end_seconds)


def _import_sdk() -> None:
    """Import what speaks to servers: only who has a server pays for it."""
    import mcp  # noqa: F401

    import weft.tools.mcp.transport  # noqa: F401

    # Without a handler anywhere Python shows warnings on standard error. What the SDK warns of, a call that
    # fails tells in its own words; a program that has set up logging gets it still.
    for name in ("mcp", "client"):
        sdk = logging.getLogger(name)
        if not sdk.handlers:
            sdk.addHandler(logging.NullHandler())


def _innermost(error: BaseException) -> BaseException:
    """The first error that is no group of others."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _short(text: str) -> str:
    """The text in one line, not too long."""
    return " ".join(cut(text, 300).split())
