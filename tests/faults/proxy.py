"""A TCP proxy between weft and a real PostgreSQL that fails on command, as networks do.

    def test_...(proxy: Proxy) -> None:
        proxy.lose_commits(containing=b"answer to one")
        ... a store, or a weft process, at proxy.url ...
        assert proxy.lost_commits == 1

It runs in a thread of its own, so the test and the processes that a test starts can use it alike. Commands
take effect before they return. `heal` ends every fault; connections that were only held up continue where
they were, as TCP does after an outage.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from msgspec import Struct

from tests.command_line import wait_for
from tests.faults.wire import Messages

Direction = Literal["to_server", "to_client"]
DIRECTIONS: tuple[Direction, ...] = ("to_server", "to_client")

End = Literal["reset", "silence"]
"""What becomes of a connection that a fault has struck."""

_CHUNK_BYTES = 1 << 16
_REFUSES_ENCRYPTION = b"N"


class Target(NamedTuple):
    """Where the real server listens."""

    path: str | None
    host: str
    port: int

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.path is not None:
            return await asyncio.open_unix_connection(self.path)
        return await asyncio.open_connection(self.host, self.port)


class CommitLoss(Struct):
    """A fault: commits happen, and the client never hears of it."""

    skipped: int
    """How many commits that match get their reply first."""
    remaining: int
    containing: bytes
    """What the client must have sent since the last transaction ended; every commit matches if empty."""
    then: End

    def strikes(self, sent: bytes) -> bool:
        """Whether this commit loses its reply; counts it."""
        if not self.remaining or self.containing not in sent:
            return False
        if self.skipped:
            self.skipped -= 1
            return False
        self.remaining -= 1
        return True


class QueryCut(Struct):
    """A fault: queries do not reach the server, and their connection is reset or says nothing more."""

    skipped: int
    remaining: int
    containing: bytes = b""
    then: End = "reset"

    def strikes(self, query: bytes) -> bool:
        """Whether this query is cut; counts it."""
        if self.containing not in query:
            return False
        if self.skipped:
            self.skipped -= 1
            return False
        self.remaining -= 1
        return self.remaining >= 0


class Proxy:
    """A listening port, the faults that apply now, and the connections through it."""

    def __init__(self, server_url: str) -> None:
        self._target = _target_of(server_url)
        self._server_url = server_url
        self._loop = asyncio.new_event_loop()
        self._open: dict[Connection, asyncio.Task[None]] = {}
        self._losses: list[CommitLoss] = []
        self._cut = QueryCut(0, 0)
        self._gates = {direction: asyncio.Event() for direction in DIRECTIONS}
        self._delays = dict.fromkeys(DIRECTIONS, 0.0)
        self._is_refusing = False
        self.port = 0
        self.commits = 0
        """How many commits the server has confirmed."""
        self.lost_commits = 0
        """How many of them the client was not told of."""
        self.queries = 0
        """How many times a client has asked the server something."""
        self.cut_queries = 0
        """How many of these did not reach the server."""
        self.connections = 0
        """How many connections there have been."""

    @property
    def url(self) -> str:
        """The server's URL, by way of this proxy."""
        return self.url_of(self._server_url)

    @property
    def open_connections(self) -> int:
        return len(self._open)

    def url_of(self, url: str) -> str:
        """Return a URL of the same server, such as one of another schema, that leads through this proxy."""
        parts = urlsplit(url)
        user, _, _ = parts.netloc.rpartition("@")
        query = urlencode(
            [(name, value) for name, value in parse_qsl(parts.query) if name not in ("host", "port")]
        )
        netloc = f"{user}@127.0.0.1:{self.port}" if user else f"127.0.0.1:{self.port}"
        return urlunsplit((parts.scheme, netloc, parts.path, query, ""))

    # Faults

    def reset(self) -> None:
        """End all connections with a reset, on both sides."""
        self._do(self._reset_all)

    def refuse(self) -> None:
        """Reset all connections, and every new one at once, until `heal`."""

        def refuse() -> None:
            self._is_refusing = True
            self._reset_all()

        self._do(refuse)

    def blackhole(self, *directions: Direction) -> None:
        """Pass nothing on (in these directions, or both), not even that a side has closed, until `heal`."""

        def close_gates() -> None:
            for direction in directions or DIRECTIONS:
                self._gates[direction].clear()

        self._do(close_gates)

    def delay(self, seconds: float, *directions: Direction) -> None:
        """Hold up every piece of data (in these directions, or both), until `heal`."""
        self._do(lambda: self._delays.update(dict.fromkeys(directions or DIRECTIONS, seconds)))

    def half_close(self, direction: Direction) -> None:
        """Tell one side of every connection that the other will send no more; the way back stays open."""

        def half_close_all() -> None:
            for connection in self._open:
                connection.half_close(direction)

        self._do(half_close_all)

    def lose_commits(
        self,
        *,
        after: int = 0,
        count: int = 1,
        containing: bytes = b"",
        then: End = "reset",
    ) -> None:
        """Let COMMITs reach the server and swallow its reply, then reset the connection or say nothing more.

        `after` is how many commits that match pass unharmed before, `containing` what the transaction must
        have been sent (values travel as text): a task's name, a model's response.
        """
        loss = CommitLoss(after, count, containing, then)
        self._do(lambda: self._losses.append(loss))

    def cut_next_queries(
        self, *, after: int = 0, count: int = 1, containing: bytes = b"", then: End = "reset"
    ) -> None:
        """Cut connections in the moment when they would pass on a query, after that many that match.

        Of a prepared statement no text is sent with the query, so `containing` finds simple ones: `COMMIT`.
        """

        def cut() -> None:
            self._cut = QueryCut(after, count, containing, then)

        self._do(cut)

    def heal(self) -> None:
        """End every fault."""

        def heal() -> None:
            self._cut = QueryCut(0, 0)
            self._is_refusing = False
            self._losses.clear()
            self._delays = dict.fromkeys(DIRECTIONS, 0.0)
            for gate in self._gates.values():
                gate.set()

        self._do(heal)

    # Connections, in the proxy's own thread

    def loses_reply(self, sent: bytes) -> CommitLoss | None:
        """Count a commit; the fault that takes its reply, if there is one."""
        self.commits += 1
        loss = next((loss for loss in self._losses if loss.strikes(sent)), None)
        self.lost_commits += loss is not None
        return loss

    def cuts_query(self, query: bytes) -> QueryCut | None:
        """Count a query; the fault that cuts it, if there is one."""
        self.queries += 1
        if not self._cut.strikes(query):
            return None
        self.cut_queries += 1
        return self._cut

    @property
    def watches_content(self) -> bool:
        return any(loss.containing and loss.remaining for loss in self._losses)

    async def let_through(self, direction: Direction) -> None:
        """Wait as long as the faults say."""
        if self._delays[direction]:
            await asyncio.sleep(self._delays[direction])
        await self._gates[direction].wait()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_refusing:
            _abort(writer)
            return
        task = asyncio.current_task()
        assert task is not None
        self.connections += 1
        connection = Connection(self, reader, writer)
        self._open[connection] = task
        try:
            await connection.run(self._target.connect)
        except asyncio.CancelledError:
            pass  # the proxy stops
        finally:
            connection.reset()
            del self._open[connection]

    def _reset_all(self) -> None:
        for connection in self._open:
            connection.reset()

    # Life

    def _do(self, act: Callable[[], object]) -> None:
        """Do something in the proxy's thread, and wait until it is done."""
        done: Future[object] = Future()

        def run() -> None:
            try:
                done.set_result(act())
            except BaseException as error:
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        done.result(timeout=30)

    def run(self) -> None:
        """Listen until `stop`; in a thread of its own."""
        asyncio.set_event_loop(self._loop)
        for gate in self._gates.values():
            gate.set()
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        try:
            self._loop.run_forever()
        finally:
            server.close()
            tasks = list(self._open.values())
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(asyncio.sleep(0))  # transports close in the next turn
            self._loop.close()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)


class Connection:
    """One connection of a client, and the one to the server that belongs to it."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._reader = reader
        self._client = writer
        self._server: asyncio.StreamWriter | None = None
        self._sent = bytearray()
        """What the client sent since its last transaction ended, if a fault wants to know."""

    async def run(
        self, connect: Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
    ) -> None:
        """Pass data on in both directions, until one side is gone or both have sent all."""
        try:
            from_server, self._server = await connect()
        except OSError:  # no server: a client learns that by a reset
            return
        pumps = [
            asyncio.create_task(self._pump("to_server", self._reader, self._server, self._from_client)),
            asyncio.create_task(self._pump("to_client", from_server, self._client, self._from_server)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(
        self,
        direction: Direction,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        passed: Callable[[bytes, Messages], Awaitable[bytes]],
    ) -> None:
        messages = Messages(begins_untyped=direction == "to_server")
        while True:
            try:
                data = await reader.read(_CHUNK_BYTES)
            except ConnectionError:
                await self._proxy.let_through(direction)
                raise
            await self._proxy.let_through(direction)
            if not data:
                _end(writer)
                return
            writer.write(await passed(data, messages))
            await writer.drain()

    async def _from_client(self, data: bytes, messages: Messages) -> bytes:
        """Return what is passed to the server."""
        passed = bytearray()
        for message in messages.feed(data):
            if message.asks_for_encryption:
                self._client.write(_REFUSES_ENCRYPTION)
                continue
            if message.is_query and (cut := self._proxy.cuts_query(message.body)):
                await _come_to(cut.then)
            passed += message.raw
        if self._proxy.watches_content:
            self._sent += passed
        return bytes(passed)

    async def _from_server(self, data: bytes, messages: Messages) -> bytes:
        """Return what is passed to the client."""
        passed = bytearray()
        for message in messages.feed(data):
            if message.is_committed and (loss := self._proxy.loses_reply(bytes(self._sent))):
                await _come_to(loss.then)
            if message.is_idle:
                self._sent.clear()
            passed += message.raw
        return bytes(passed)

    def half_close(self, direction: Direction) -> None:
        writer = self._server if direction == "to_server" else self._client
        if writer is not None:
            _end(writer)

    def reset(self) -> None:
        for writer in (self._client, self._server):
            if writer is not None:
                _abort(writer)


async def _come_to(end: End) -> None:
    """Raise what resets the connection, or wait until somebody else ends it."""
    if end == "silence":
        await asyncio.get_running_loop().create_future()
    raise ConnectionResetError


def _end(writer: asyncio.StreamWriter) -> None:
    """Tell a side that no more will come."""
    with suppress(OSError, RuntimeError):  # it is closed already
        writer.write_eof()


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close a connection so that the other side sees a reset and not an orderly end."""
    opened: socket.socket | None = writer.get_extra_info("socket")
    if opened is not None and opened.family == socket.AF_INET:
        with suppress(OSError):
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _target_of(url: str) -> Target:
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    host = query.get("host") or parts.hostname or "127.0.0.1"
    port = int(query.get("port") or parts.port or 5432)
    return Target(f"{host}/.s.PGSQL.{port}" if host.startswith("/") else None, host, port)


@contextmanager
def proxy_to(server_url: str) -> Iterator[Proxy]:
    """Run a proxy to the server of a URL while the block runs."""
    proxy = Proxy(server_url)
    thread = threading.Thread(target=proxy.run, name="proxy")
    thread.start()
    try:
        wait_for(lambda: proxy.port > 0)
        yield proxy
    finally:
        proxy.stop()
        thread.join()
