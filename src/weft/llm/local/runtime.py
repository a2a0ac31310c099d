"""Runs llama.cpp in a separate process, which serves one model on a private socket, one request at a time."""

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

from weft.aio import TurnQueue, run_blocking
from weft.errors import MissingExtra, text_of
from weft.llm.errors import ContextTooLong, ModelError
from weft.secrets.registry import register

if TYPE_CHECKING:
    import httpx2


_FOLDER_PREFIX = "weft-model-"
_LOCK_NAME = "lock"
_MAX_FOLDER_CHARACTERS = 60
"""Longest path of the temporary folder, in characters; the path of a Unix socket may have about 100."""


class PrivateFolder:
    """A temporary folder of this process, with a lock that the kernel releases when the process ends."""

    def __init__(self) -> None:
        """Create the folder. Raise OSError."""
        self.path = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=_short_folder()))
        # Locked before it gets its name, so that `sweep` in another process never finds it unlocked.
        new = self.path / f"{_LOCK_NAME}.new"
        self._lock = new.open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        new.rename(self.path / _LOCK_NAME)

    def remove(self) -> None:
        """Delete the folder. Idempotent."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def sweep() -> None:
    """Delete the folders that killed processes of this user left behind."""
    for path in Path(_short_folder() or tempfile.gettempdir()).glob(f"{_FOLDER_PREFIX}*/{_LOCK_NAME}"):
        with suppress(OSError):  # it belongs to another user, is still locked, or was just deleted
            _remove_if_dead(path)


def _remove_if_dead(path: Path) -> None:
    if path.lstat().st_uid != os.getuid():
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while its process lives
        shutil.rmtree(path.parent, ignore_errors=True)
    finally:
        os.close(descriptor)


def _short_folder() -> str | None:
    """Return /tmp if socket paths in the default temporary folder would be too long, otherwise None."""
    return None if len(tempfile.gettempdir()) < _MAX_FOLDER_CHARACTERS else "/tmp"  # noqa: S108


Chunk = dict[str, Any]

MAX_FAILURES = 2
"""Number of crashes without a successful request between them after which no new process is started."""

DEFAULT_MAX_TOKENS = 1_024
"""Output limit of requests without `max_tokens`: small models do not always stop."""

_EXIT_SECONDS = 10
"""How many seconds to wait for the exit code of a worker that closed its pipe."""

_RELAY_BYTES = 65_536

_WORKER = Path(__file__).with_name("worker.py")


class RuntimeSettings(Struct, frozen=True, kw_only=True):
    """Settings with which a model is loaded."""

    context_window: int = 8_192
    threads: int | None = None
    """None for one thread per core."""
    is_embedding: bool = False
    """Whether the model is loaded for embeddings instead of text."""


class Runtime:
    """Serves one model to any event loop and thread; starts its process on demand.

    Responses and embeddings are made one at a time, in order of arrival; token counts do not wait for them.
    """

    def __init__(self, path: Path, settings: RuntimeSettings) -> None:
        self.path = path
        self.settings = settings
        self._queue = TurnQueue()
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._failures = 0
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    async def start(self) -> None:
        """Start the process if necessary, and wait until the model is loaded. Raise ModelError."""
        await self._running_process()

    async def chunks(self, body: dict[str, Any]) -> AsyncGenerator[Chunk, None]:
        """Yield the chunks of a response once the model is free. Closing the generator stops the model."""
        async with self._queue:
            process = await self._running_process()
            try:
                async with aclosing(process.stream("/v1/chat/completions", body)) as pieces:
                    async for piece in pieces:
                        yield piece
            except ConnectionError as error:
                raise self._crashed(process) from error
            self._failures = 0

    async def count_tokens(self, messages: list[dict[str, str]]) -> int:
        """Count the tokens of the messages, formatted with the model's own chat template."""
        process = await self._running_process()
        try:
            [templated] = await process.post("/apply-template", [{"messages": messages}])
            body = {"content": templated["prompt"], "parse_special": True}
            [response] = await process.post("/tokenize", [body])
        except ConnectionError as error:
            raise self._crashed(process) from error
        return len(response["tokens"])

    async def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize each text, with start and end tokens; special tokens in a text are plain text."""
        process = await self._running_process()
        bodies = [{"content": text, "add_special": True, "parse_special": False} for text in texts]
        try:
            return [response["tokens"] for response in await process.post("/tokenize", bodies)]
        except ConnectionError as error:
            raise self._crashed(process) from error

    async def embeddings(self, inputs: Sequence[str | list[int]]) -> dict[str, Any]:
        """Wait until the model is free, then embed texts or token lists. Cancellation stops the model."""
        async with self._queue:
            process = await self._running_process()
            body = {"input": list(inputs), "encoding_format": "base64"}
            try:
                [response] = await process.post("/v1/embeddings", [body])
            except ConnectionError as error:
                raise self._crashed(process) from error
            self._failures = 0
            return response

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[tuple[str, str]]:
        """Let other processes of this machine use the runtime's own server during the `with` block.

        Yields the base URL of its OpenAI-compatible API and the key that it requires.
        """
        process = await self._running_process()
        register(process.key, "a key of an embedded model")
        async with process.forward() as port:
            yield f"http://127.0.0.1:{port}/v1", process.key

    def close(self) -> None:
        """End the process. Running, waiting and later requests fail."""
        with self._lock:
            self._is_closed = True
            process, self._process = self._process, None
        if process is not None:
            process.end()

    async def _running_process(self) -> "_Process":
        """Return the process with the loaded model, starting it if necessary. Raise ModelError."""
        with self._lock:
            if self._is_closed:
                raise _closed_error()
            if self._process is None:
                if self._failures >= MAX_FAILURES:
                    raise ModelError(
                        "llm_error",
                        f"the embedded model has crashed {self._failures} times and is not started again "
                        "in this process: use another model, or restart weft",
                    )
                self._process = _Process(self.path, self.settings)
            process = self._process
        try:
            if not process.loaded.done():
                await run_blocking(process.loaded.result)
            process.loaded.result()
        except ModelError:
            with self._lock:
                if self._is_closed:
                    raise _closed_error() from None
                if self._process is process:  # the next request starts a new one: memory may be free by then
                    self._process = None
            raise
        return process

    def _crashed(self, process: "_Process") -> ModelError:
        """Discard a process that closed its connection, and return the error to raise."""
        with self._lock:
            if self._is_closed:
                return _closed_error()
            if self._process is process:
                self._process = None
                self._failures += 1
        code = process.end()
        return ModelError(
            "llm_error", f"the embedded model has crashed (exit code {code})", is_transient=True
        )


class _Process:
    """One process of `worker.py`, and the requests to it."""

    def __init__(self, path: Path, settings: RuntimeSettings) -> None:
        if find_spec("xllamacpp") is None:
            raise MissingExtra(extra="local", purpose="an embedded model")
        self._path = path
        self._owner = os.getpid()
        # llama.cpp always listens: here on a socket in a folder that only this user can enter, with a key.
        try:
            self._folder = PrivateFolder()
            try:
                self._worker, report_descriptor = _start_worker()
            except BaseException:
                self._folder.remove()
                raise
        except OSError as error:
            message = f"the process of an embedded model cannot be started: {error.strerror or error}"
            raise ModelError("llm_error", message, is_transient=True) from error
        self._report_pipe = os.fdopen(report_descriptor, "rb")
        self._socket = str(self._folder.path / "model.sock")
        self.key = secrets.token_urlsafe(32)
        atexit.register(self.end)
        options = {
            "path": str(path),
            "context_window": settings.context_window,
            "threads": settings.threads,
            "max_tokens": DEFAULT_MAX_TOKENS,
            "is_embedding": settings.is_embedding,
            "socket": self._socket,
            "key": self.key,
        }
        self.loaded: Future[None] = Future()
        """Done when the model is loaded, or with the ModelError why it cannot be loaded."""
        # A daemon, so that a process that exits while a model loads does not wait for it.
        threading.Thread(target=self._load, args=(options,), name="weft-model", daemon=True).start()

    def _load(self, options: dict[str, Any]) -> None:
        """Let the worker load the model, and complete the future `loaded` in every case. Runs in a thread."""
        try:
            problem = self._load_problem(options)
        except Exception as error:
            problem = text_of(error)
        if problem is None:
            self.loaded.set_result(None)
            return
        self.end()
        self.loaded.set_exception(
            ModelError("configuration_error", f"{self._path} cannot be loaded: {problem}")
        )

    def _load_problem(self, options: dict[str, Any]) -> str | None:
        """Return why the model cannot be loaded; None once it is in memory."""
        if self._worker.stdin is None:
            raise AssertionError("the worker was started with a pipe")
        with suppress(OSError):  # the worker has ended, which is reported below
            self._worker.stdin.write(json.dumps(options).encode() + b"\n")
            self._worker.stdin.flush()
        import httpx2  # noqa: F401  # slow: imported here while the model loads, not in the event loop

        sweep()
        report = self._report_pipe.readline()
        if report:
            problem: str | None = json.loads(report)["problem"]
            return problem
        with suppress(subprocess.TimeoutExpired):
            code = self._worker.wait(_EXIT_SECONDS)
            return f"its process ended (exit code {code}); there may not be enough memory"
        return "its process does not respond"

    async def stream(self, address: str, body: dict[str, Any]) -> AsyncGenerator[Chunk, None]:
        """Yield the events of a response. Raise ModelError, or ConnectionError if the process is gone."""
        import httpx2

        try:
            async with self._client() as client, client.stream("POST", address, json=body) as response:
                if response.status_code != 200:
                    raise _parse_error(json.loads(await response.aread()))
                async for line in response.aiter_lines():
                    kind, _, text = line.partition(": ")
                    if kind == "error":
                        raise _parse_error({"error": json.loads(text)})
                    if kind != "data" or text == "[DONE]":
                        continue
                    chunk: Chunk = json.loads(text)
                    if "error" in chunk:
                        raise _parse_error(chunk)
                    yield chunk
        except httpx2.TransportError as error:
            raise ConnectionError(str(error)) from error

    async def post(self, address: str, bodies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Send requests in order and return the responses.

        Raise ModelError, or ConnectionError if the process is gone.
        """
        import httpx2

        responses = []
        try:
            async with self._client() as client:
                for body in bodies:
                    response = await client.post(address, json=body)
                    if response.status_code != 200:
                        raise _parse_error(response.json())
                    responses.append(response.json())
        except httpx2.TransportError as error:
            raise ConnectionError(str(error)) from error
        return responses

    @asynccontextmanager
    async def forward(self) -> AsyncIterator[int]:
        """Listen on a free loopback port and relay its clients to the worker's socket; yield the port.

        The worker checks the key of the clients.
        """
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

        # No TLS on a private socket; loading the system's certificates would cost 20 ms.
        return httpx2.AsyncClient(
            transport=httpx2.AsyncHTTPTransport(uds=self._socket, verify=False),
            base_url="http://localhost",
            headers={"Authorization": f"Bearer {self.key}"},
            timeout=None,
            trust_env=False,
        )

    def end(self) -> int | None:
        """Kill the worker and return its exit code; None in a forked child. Idempotent."""
        if os.getpid() != self._owner:  # a fork: the worker belongs to the parent
            return None
        atexit.unregister(self.end)
        self._worker.kill()
        code = self._worker.wait()
        for pipe in (self._worker.stdin, self._report_pipe):
            with suppress(OSError):  # unflushed data
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
        for open_writer in writers:
            open_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes; raise EOFError at their end, so that the other direction ends as well."""
    while data := await reader.read(_RELAY_BYTES):
        writer.write(data)
        await writer.drain()
    raise EOFError


def _start_worker() -> "tuple[subprocess.Popen[bytes], int]":
    """Start the worker; return it and the read end of the pipe on which it reports about the model."""
    reading, writing = os.pipe()
    try:
        worker = subprocess.Popen(
            [sys.executable, "-P", str(_WORKER), str(writing)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(writing,),
            start_new_session=True,  # Ctrl-C must not reach the worker
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return worker, reading


def _closed_error() -> ModelError:
    return ModelError("llm_error", "the embedded model has been closed")


def _parse_error(response: dict[str, Any]) -> ModelError:
    error = response.get("error") or {}
    message = str(error.get("message", "the embedded model failed"))
    if error.get("type") == "exceed_context_size_error":
        return ContextTooLong("llm_error", f"the embedded model's context window is too small: {message}")
    return ModelError("llm_error", f"the embedded model refused the request: {message}")
