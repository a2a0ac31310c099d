"""Run llama.cpp in a process of its own, called through a private socket, one call at a time."""

import asyncio
import atexit
import fcntl
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from concurrent.futures import Future
from contextlib import aclosing, asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from weft.aio import TurnQueue
from weft.errors import MissingExtra, text_of
from weft.llm.errors import ContextTooLong, ModelError
from weft.secrets.registry import register

if TYPE_CHECKING:
    import httpx2


_PREFIX = "weft-model-"
_LOCK = "lock"
_MAX_FOLDER = 60


class PrivateFolder:
    """A folder of this process: while it lives it holds a lock in it, which the kernel lets go of."""

    def __init__(self) -> None:
        """Make it. Raises OSError."""
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_short_folder()))
        # The lock has its name only when it is held: whoever sweeps never finds one that is not held yet.
        new = self.path / f"{_LOCK}.new"
        self._lock = new.open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        new.rename(self.path / _LOCK)

    def remove(self) -> None:
        """Delete it. Nothing happens the second time."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def sweep() -> None:
    """Delete the folders of this user's programs that were killed together with their workers."""
    for path in Path(_short_folder() or tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        with suppress(OSError):  # it is another's, or has just gone
            _remove_if_dead(path)


def _remove_if_dead(path: Path) -> None:
    if path.lstat().st_uid != os.getuid():
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while its program lives
        shutil.rmtree(path.parent, ignore_errors=True)
    finally:
        os.close(descriptor)


def _short_folder() -> str | None:
    """Where temporary folders go, unless a socket's path there would be longer than the system takes."""
    return None if len(tempfile.gettempdir()) < _MAX_FOLDER else "/tmp"  # noqa: S108


Chunk = dict[str, Any]

MAX_FAILURES = 2
"""How often in a row the process may end by itself before it is not started again."""

DEFAULT_MAX_TOKENS = 1_024
"""Of an answer whose request names no limit: small models do not always find an end."""

_LAST_SECONDS = 10
"""How long a worker that says no more may take to end by itself: its exit code tells why."""

_RELAY_BYTES = 65_536

_WORKER = Path(__file__).with_name("worker.py")


class RuntimeSettings(Struct, frozen=True, kw_only=True):
    """How a model is loaded."""

    context_window: int = 8_192
    threads: int | None = None
    """None: as many as there are cores."""
    is_embedding: bool = False
    """Whether it makes embeddings; what it makes is settled when a model is loaded."""


class Runtime:
    """Answers calls in the order they came, of any event loop and thread. Starts its process when asked."""

    def __init__(self, path: Path, settings: RuntimeSettings) -> None:
        self.path = path
        self.settings = settings
        self._line = TurnQueue()
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._failures = 0
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """Whether it will never answer again."""
        return self._is_closed

    async def start(self) -> None:
        """Wait until the model is in memory. Raises ModelError."""
        await self._running()

    async def chunks(self, body: dict[str, Any]) -> AsyncGenerator[Chunk, None]:
        """The pieces of an answer, when its turn comes. Whoever stops asking for more stops the model."""
        async with self._line:
            process = await self._running()
            try:
                async with aclosing(process.stream("/v1/chat/completions", body)) as pieces:
                    async for piece in pieces:
                        yield piece
            except ConnectionError as error:
                raise self._lost(process) from error
            self._failures = 0

    async def count_tokens(self, messages: list[dict[str, str]]) -> int:
        """How many tokens the messages take, in the model's own template."""
        process = await self._running()
        try:
            [templated] = await process.post("/apply-template", [{"messages": messages}])
            body = {"content": templated["prompt"], "parse_special": True}
            [answer] = await process.post("/tokenize", [body])
        except ConnectionError as error:
            raise self._lost(process) from error
        return len(answer["tokens"])

    async def tokens_of(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text, with those that the model wants at its ends; marks in it are only text."""
        process = await self._running()
        bodies = [{"content": text, "add_special": True, "parse_special": False} for text in texts]
        try:
            return [answer["tokens"] for answer in await process.post("/tokenize", bodies)]
        except ConnectionError as error:
            raise self._lost(process) from error

    async def embeddings(self, inputs: Sequence[str | list[int]]) -> dict[str, Any]:
        """The answer for texts, or their tokens, when its turn comes. Cancelling it stops the model."""
        async with self._line:
            process = await self._running()
            body = {"input": list(inputs), "encoding_format": "base64"}
            try:
                [answer] = await process.post("/v1/embeddings", [body])
            except ConnectionError as error:
                raise self._lost(process) from error
            self._failures = 0
            return answer

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[tuple[str, str]]:
        """Let other processes of this machine use the runtime's own server for as long as the block.

        Yields the base URL of its OpenAI protocol and the key that it requires.
        """
        process = await self._running()
        register(process.key, "a key of an embedded model")
        async with process.forward() as port:
            yield f"http://127.0.0.1:{port}/v1", process.key

    def close(self) -> None:
        """End the process: what runs and waits fails, and so does what comes after."""
        with self._lock:
            self._is_closed = True
            process, self._process = self._process, None
        if process is not None:
            process.end()

    async def _running(self) -> "_Process":
        with self._lock:
            if self._is_closed:
                raise _closed()
            if self._process is None:
                if self._failures >= MAX_FAILURES:
                    raise ModelError(
                        "llm_error",
                        f"the embedded model has crashed {self._failures} times and is not started again",
                    )
                self._process = _Process(self.path, self.settings)
            process = self._process
        try:
            await _result(process.loaded)
        except ModelError:
            with self._lock:
                if self._is_closed:
                    raise _closed() from None
                if self._process is process:  # another try may find more memory, or another file
                    self._process = None
            raise
        return process

    def _lost(self, process: "_Process") -> ModelError:
        """What to say when the process does not answer: it has ended, and is let go of."""
        with self._lock:
            if self._is_closed:
                return _closed()
            if self._process is process:
                self._process = None
                self._failures += 1
        code = process.end()
        return ModelError(
            "llm_error", f"the embedded model has crashed (exit code {code})", is_transient=True
        )


class _Process:
    """One run of the worker."""

    def __init__(self, path: Path, settings: RuntimeSettings) -> None:
        if find_spec("xllamacpp") is None:
            raise MissingExtra(extra="local", purpose="an embedded model")
        self._path = path
        self._owner = os.getpid()
        # The runtime cannot do without a listener: a socket in a folder that only we can enter, and a key.
        try:
            self._folder = PrivateFolder()
            try:
                self._worker, answers = _started()
            except BaseException:
                self._folder.remove()
                raise
        except OSError as error:
            message = f"the process of an embedded model cannot be started: {error.strerror or error}"
            raise ModelError("llm_error", message, is_transient=True) from error
        self._answers = os.fdopen(answers, "rb")
        self._socket = str(self._folder.path / "model.sock")
        self.key = secrets.token_urlsafe(32)
        atexit.register(self.end)
        asked = {
            "path": str(path),
            "context_window": settings.context_window,
            "threads": settings.threads,
            "max_tokens": DEFAULT_MAX_TOKENS,
            "is_embedding": settings.is_embedding,
            "socket": self._socket,
            "key": self.key,
        }
        self.loaded: Future[None] = Future()
        # A daemon: a program that ends while a model is loaded does not wait for it.
        threading.Thread(target=self._load, args=(asked,), name="weft-model", daemon=True).start()

    def _load(self, asked: dict[str, Any]) -> None:
        """Tell the worker what to load, and settle `loaded` by its word, whatever happens."""
        try:
            problem = self._problem(asked)
        except Exception as error:
            problem = text_of(error)
        if problem is None:
            self.loaded.set_result(None)
            return
        self.end()
        self.loaded.set_exception(
            ModelError("configuration_error", f"{self._path} cannot be loaded: {problem}")
        )

    def _problem(self, asked: dict[str, Any]) -> str | None:
        """Why the model cannot be loaded; None: it is in memory."""
        if self._worker.stdin is None:
            raise AssertionError("it was asked for")
        with suppress(OSError):  # it has ended: that is told below
            self._worker.stdin.write(json.dumps(asked).encode() + b"\n")
            self._worker.stdin.flush()
        import httpx2  # noqa: F401  # slow: here, while the model is loaded, and not in the event loop

        sweep()
        answer = self._answers.readline()
        if answer:
            problem: str | None = json.loads(answer)["problem"]
            return problem
        with suppress(subprocess.TimeoutExpired):
            code = self._worker.wait(_LAST_SECONDS)
            return f"its process has ended (exit code {code}); memory may not suffice"
        return "its process says nothing"

    async def stream(self, address: str, body: dict[str, Any]) -> AsyncGenerator[Chunk, None]:
        """The events of an answer. Raises ModelError, or ConnectionError when there is nobody."""
        import httpx2

        try:
            async with self._client() as client, client.stream("POST", address, json=body) as response:
                if response.status_code != 200:
                    raise _error_of(json.loads(await response.aread()))
                async for line in response.aiter_lines():
                    kind, _, text = line.partition(": ")
                    if kind == "error":
                        raise _error_of({"error": json.loads(text)})
                    if kind != "data" or text == "[DONE]":
                        continue
                    chunk: Chunk = json.loads(text)
                    if "error" in chunk:
                        raise _error_of(chunk)
                    yield chunk
        except httpx2.TransportError as error:
            raise ConnectionError(str(error)) from error

    async def post(self, address: str, bodies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The answers to requests. Raises ModelError, or ConnectionError when there is nobody."""
        import httpx2

        answers = []
        try:
            async with self._client() as client:
                for body in bodies:
                    response = await client.post(address, json=body)
                    if response.status_code != 200:
                        raise _error_of(response.json())
                    answers.append(response.json())
        except httpx2.TransportError as error:
            raise ConnectionError(str(error)) from error
        return answers

    @asynccontextmanager
    async def forward(self) -> AsyncIterator[int]:
        """Connect clients of a free loopback port to the worker's socket; the worker checks their key."""
        connections: set[asyncio.Task[None]] = set()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = asyncio.create_task(_relay(self._socket, reader, writer))
            connections.add(connection)
            connection.add_done_callback(connections.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for connection in connections:
                connection.cancel()
            if connections:
                await asyncio.wait(connections)

    def _client(self) -> "httpx2.AsyncClient":
        import httpx2

        # Nothing is encrypted on a socket of our own: reading the system's certificates would cost 20 ms.
        return httpx2.AsyncClient(
            transport=httpx2.AsyncHTTPTransport(uds=self._socket, verify=False),
            base_url="http://localhost",
            headers={"Authorization": f"Bearer {self.key}"},
            timeout=None,
            trust_env=False,
        )

    def end(self) -> int | None:
        """End the worker, and give its exit code. Nothing happens the second time."""
        if os.getpid() != self._owner:  # a fork: it is its parent's
            return None
        atexit.unregister(self.end)
        self._worker.kill()
        code = self._worker.wait()
        for pipe in (self._worker.stdin, self._answers):
            with suppress(OSError):  # what was not read any more
                if pipe is not None:
                    pipe.close()
        self._folder.remove()
        return code


async def _relay(socket: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes between a client and a Unix socket until one of them closes its side."""
    writers = [writer]
    try:
        source, target = await asyncio.open_unix_connection(socket)
        writers.append(target)
        async with asyncio.TaskGroup() as group:
            group.create_task(_copy(reader, target))
            group.create_task(_copy(source, writer))
    except* (OSError, EOFError):
        pass  # the client sees its connection close
    finally:
        for one in writers:
            one.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes; raise EOFError at their end, so that the other direction ends as well."""
    while data := await reader.read(_RELAY_BYTES):
        writer.write(data)
        await writer.drain()
    raise EOFError


async def _result(future: "Future[None]") -> None:
    """Wait for what a thread does; being cancelled, or the end of the loop, leaves the thread alone."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def tell(_: object) -> None:
        with suppress(RuntimeError):  # the loop has been closed: nobody waits any more
            loop.call_soon_threadsafe(done.set)

    future.add_done_callback(tell)
    await done.wait()
    future.result()


def _started() -> "tuple[subprocess.Popen[bytes], int]":
    """The worker, and where it answers: a pipe of its own, for anybody may print on its output."""
    reading, writing = os.pipe()
    try:
        worker = subprocess.Popen(
            [sys.executable, "-P", str(_WORKER), str(writing)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(writing,),
            start_new_session=True,  # Ctrl-C is for the program, not for its model
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return worker, reading


def _closed() -> ModelError:
    return ModelError("llm_error", "the embedded model has been closed")


def _error_of(answer: dict[str, Any]) -> ModelError:
    error = answer.get("error") or {}
    message = str(error.get("message", "the embedded model failed"))
    if error.get("type") == "exceed_context_size_error":
        return ContextTooLong("llm_error", f"the embedded model's window is too small: {message}")
    return ModelError("llm_error", f"the embedded model refused the request: {message}")
