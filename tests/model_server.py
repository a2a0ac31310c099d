"""A model provider on the loopback address that answers what a test scripts, well or badly.

It is real HTTP, in a thread of its own: programs that tests start can use it as well as the test itself. It
speaks OpenAI's chat completions (whole and streamed), its list of models and its embeddings, Anthropic's
messages and Google's generateContent.

    def test_...(model_server: ModelServer) -> None:
        model_server.script(fails(429, headers={"retry-after": "2"}), says("hello"))
        ... a client of model_server.base_url ...
        assert model_server.requests[1].body["messages"] == ...

Every request takes the next of the script; when that is used up it is answered with `says("hello")`.
"""

import asyncio
import http.client
import json
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.model_wire import Answer, AskedTool, Dialect, dialect_of, error_body, events, is_stream, whole

PATIENCE_SECONDS = 30.0
"""How long a test waits for what must happen soon; only a failure takes that long."""


class Recorded:
    """A request that the server got."""

    def __init__(self, method: str, path: str, headers: dict[str, str], body: Any) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        """With names in lower case."""
        self.body = body
        """The JSON, or the bytes that are none."""
        self.at = time.monotonic()
        self.is_answered = False
        """Whether all that was to be sent was sent."""
        self.is_abandoned = False
        """Whether the client went away before that."""


class Exchange:
    """One request, and the way to answer it."""

    def __init__(self, request: Recorded, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self._reader = reader
        self._writer = writer

    @property
    def dialect(self) -> Dialect:
        return dialect_of(self.request.path) or "openai"

    async def head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
        await self.send("\r\n".join([*lines, "", ""]).encode())

    async def send(self, piece: bytes) -> None:
        self._writer.write(piece)
        await self._writer.drain()

    async def whole(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        await self.head(status, {**headers, "Content-Length": str(len(body))})
        await self.send(body)

    async def chunk(self, piece: bytes) -> None:
        await self.send(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")

    async def client_gone(self) -> None:
        """Wait until the client has closed the connection: it says nothing more before an answer."""
        await self._reader.read(1)
        raise ConnectionResetError

    def close(self) -> None:
        self._writer.close()


Reaction = Callable[[Exchange], Awaitable[None]]

_JSON = {"Content-Type": "application/json"}
_STREAM = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}


def says(*pieces: str, **fields: Any) -> Reaction:
    """Respond with a text; a stream has one event for each piece. Fields are those of `Answer`."""
    return _answers(Answer(pieces=pieces or ("hello",), **fields))


def gives_json(value: Any, **fields: Any) -> Reaction:
    """Respond with a text that is this JSON."""
    return says(json.dumps(value), **fields)


def asks_for(
    name: str, arguments: Mapping[str, Any] | str, *, tool_id: str = "call_1", text: str = ""
) -> Reaction:
    """Respond with a tool call; arguments as text need not be JSON."""
    return _answers(Answer(pieces=(text,) if text else (), tools=(AskedTool(name, arguments, tool_id),)))


def _answers(answer: Answer) -> Reaction:
    async def react(exchange: Exchange) -> None:
        if not is_stream(exchange.request.path, exchange.request.body):
            await exchange.whole(200, json.dumps(whole(exchange.dialect, answer)).encode(), _JSON)
            return
        await exchange.head(200, _STREAM)
        for event in events(exchange.dialect, answer):
            await exchange.chunk(event)
        await exchange.chunk(b"")

    return react


def fails(
    status: int,
    message: str = "scripted failure",
    *,
    code: str | None = None,
    headers: Mapping[str, str] = {},
) -> Reaction:
    """Respond with an error as the provider words it."""

    async def react(exchange: Exchange) -> None:
        body = error_body(exchange.dialect, status, message, code)
        await exchange.whole(status, json.dumps(body).encode(), {**_JSON, **headers})

    return react


def sends(body: bytes, *, status: int = 200, content_type: str = "application/json") -> Reaction:
    """Those bytes, whatever was asked: HTML, half a JSON, nothing."""

    async def react(exchange: Exchange) -> None:
        await exchange.whole(status, body, {"Content-Type": content_type})

    return react


def hangs() -> Reaction:
    """Nothing, ever: it ends when the client goes away."""

    async def react(exchange: Exchange) -> None:
        await exchange.client_gone()

    return react


def cuts(*pieces: str) -> Reaction:
    """Close the connection after the pieces of a stream, or in the middle of the body."""

    async def react(exchange: Exchange) -> None:
        answer = Answer(pieces=(*pieces, "never sent"))
        if is_stream(exchange.request.path, exchange.request.body):
            await exchange.head(200, _STREAM)
            for event in _up_to(exchange.dialect, answer, "never sent"):
                await exchange.chunk(event)
        else:
            body = json.dumps(whole(exchange.dialect, answer)).encode()
            await exchange.head(200, {**_JSON, "Content-Length": str(len(body))})
            await exchange.send(body[: len(body) // 2])
        exchange.close()

    return react


def drips(*pieces: str) -> Reaction:
    """Send the pieces of a stream, and then nothing more until the client disconnects."""

    async def react(exchange: Exchange) -> None:
        await exchange.head(200, _STREAM)
        for event in _up_to(exchange.dialect, Answer(pieces=(*pieces, "never sent")), "never sent"):
            await exchange.chunk(event)
        await exchange.client_gone()

    return react


def _up_to(dialect: Dialect, answer: Answer, last: str) -> Iterator[bytes]:
    for event in events(dialect, answer):
        if last.encode() in event:
            return
        yield event


class ModelServer:
    """A running server, its script, and the requests it got."""

    def __init__(self) -> None:
        self.port = 0
        self.requests: list[Recorded] = []
        """Those for an answer of a model; others (`/v1/models`) are in `others`."""
        self.others: list[Recorded] = []
        self.models = ("served-model",)
        self._script: deque[Reaction] = deque()
        self._always: Reaction = says("hello")
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.Task[None]] = set()
        self._stopped = threading.Event()
        self.connections = 0
        """How many there have been."""

    @property
    def open_connections(self) -> int:
        return len(self._open)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes; Anthropic's and Google's take `url`."""
        return f"{self.url}/v1"

    def script(self, *reactions: Reaction) -> None:
        """Answer the next requests so, one after the other."""
        self._script.extend(reactions)

    def always(self, reaction: Reaction) -> None:
        """Answer so when the script is used up."""
        self._always = reaction

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition on the requests holds; in an event loop use `until`."""
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE_SECONDS), "it never came true"

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition on the requests holds."""
        await asyncio.to_thread(self.wait_until, condition)

    def wait_until_idle(self) -> None:
        """Wait until everything that clients sent before they ended is recorded."""
        # Connections are accepted in order, so those of the ended clients come before this one.
        probe = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        probe.request("GET", "/v1/models")
        probe.getresponse().read()
        probe.close()
        self.wait_until(lambda: not self._open)

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self.connections += 1
        try:
            while not writer.is_closing():
                request = await _read(reader)
                await self._handle(Exchange(request, reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # The client has seen enough, or the server stops.
        finally:
            self._open.discard(task)
            writer.close()
            self._tell()

    async def _handle(self, exchange: Exchange) -> None:
        request = exchange.request
        if dialect_of(request.path) is None:
            self.others.append(request)
            await self._answer_other(exchange)
            return
        reaction = self._script.popleft() if self._script else self._always
        self.requests.append(request)
        self._tell()
        try:
            await reaction(exchange)
            request.is_answered = True
        except ConnectionError:
            request.is_abandoned = True
            raise
        finally:
            self._tell()

    async def _answer_other(self, exchange: Exchange) -> None:
        request = exchange.request
        body: dict[str, Any]
        if request.path.endswith("/models"):
            body = {"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]}
        elif request.path.endswith("/embeddings"):
            given = request.body["input"]
            texts = [given] if isinstance(given, str) else given
            vectors = [[float(len(text)), 1.0, 0.0] for text in texts]
            data = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors)]
            usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
            body = {"object": "list", "data": data, "model": request.body["model"], "usage": usage}
        else:
            await exchange.whole(404, b'{"error": {"message": "no such path"}}', _JSON)
            return
        await exchange.whole(200, json.dumps(body).encode(), _JSON)

    def run(self) -> None:
        """Serve until `stop`; in a thread of its own."""
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._connected, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._tell()
        try:
            self._loop.run_forever()
        finally:
            server.close()
            for task in list(self._open):
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*self._open, return_exceptions=True))
            self._loop.close()
            self._stopped.set()

    def wait_until_stopped(self) -> None:
        """Wait until nothing listens any more."""
        assert self._stopped.wait(PATIENCE_SECONDS)

    def stop(self) -> None:
        """Stop serving; connections are closed."""
        with suppress(RuntimeError):  # it is closed already
            self._loop.call_soon_threadsafe(self._loop.stop)


async def _read(reader: asyncio.StreamReader) -> Recorded:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
    method, path, _ = head[0].split(" ")
    headers = dict(line.split(": ", 1) for line in head[1:] if line)
    headers = {name.lower(): value for name, value in headers.items()}
    body: Any = await reader.readexactly(int(headers.get("content-length", 0)))
    with suppress(ValueError):
        body = json.loads(body)
    return Recorded(method, path, headers, body)


@contextmanager
def model_server() -> Iterator[ModelServer]:
    """Run a server while the block runs; `tests/conftest.py` has a fixture of the same name."""
    server = ModelServer()
    thread = threading.Thread(target=server.run, name="model-server")
    thread.start()
    try:
        server.wait_until(lambda: server.port > 0)
        yield server
    finally:
        server.stop()
        thread.join()


def write_settings(folder: Path, server: ModelServer) -> None:
    """Write a `weft.toml` whose default model is the server's; its key is in the variable SERVED_KEY."""
    (folder / "weft.toml").write_text(f"""
[models]
default = "served:good"
[models.providers.served]
base_url = "{server.base_url}"
kind = "openai"
api_key_env = "SERVED_KEY"
retries = 0
""")
