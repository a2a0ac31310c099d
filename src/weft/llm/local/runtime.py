"""A model in memory: llama.cpp in this process, one call at a time in a thread of its own."""

import atexit
import json
import os
import secrets
import shutil
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from weft.errors import MissingExtra
from weft.llm.errors import ContextTooLong, ModelError
from weft.llm.local.listener import post
from weft.llm.local.signals import kept_signals

Chunk = dict[str, Any]

OnEnd = Callable[[BaseException | None], None]

_BATCH = 64
"""Tokens of a prompt that are read at once: a call that is called off stops between two batches."""

_CACHE_MEBIBYTES = 512
"""For prompts that were read before; without a bound the runtime takes up to 8 GB."""


_MAX_FOLDER = 60


class RuntimeSettings(Struct, frozen=True, kw_only=True):
    """How a model is loaded."""

    context_window: int = 8_192
    threads: int | None = None
    """None: as many as there are cores."""


class Call:
    """A request on its way through the runtime."""

    def __init__(self, body: dict[str, Any], on_chunk: Callable[[Chunk], None], on_end: OnEnd) -> None:
        self.body = body
        self.on_chunk = on_chunk
        self.on_end = on_end
        self.is_called_off = False


class Runtime:
    """Answers calls in the order they came. Its functions may be called from any thread."""

    def __init__(self, path: Path, settings: RuntimeSettings) -> None:
        self.path = path
        self.settings = settings
        self._lock = threading.Lock()
        self._waiting: deque[Call] = deque()
        self._running: Call | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._process = os.getpid()
        # The runtime cannot do without a listener: a socket in a folder that only we can enter, and a key.
        self._folder = Path(tempfile.mkdtemp(prefix="weft-model-", dir=_short_folder()))
        self._socket = self._folder / "model.sock"
        self._key = secrets.token_urlsafe(32)
        try:
            self._server = self._load()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        atexit.register(self.close)

    def _load(self) -> Any:
        xllamacpp = import_runtime()
        params = xllamacpp.CommonParams()
        params.model.path = str(self.path)
        params.n_ctx = self.settings.context_window
        params.n_batch = params.n_ubatch = _BATCH
        params.n_parallel = 1
        threads = self.settings.threads or os.cpu_count() or 1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.cache_ram_mib = _CACHE_MEBIBYTES
        params.fit_params = params.warmup = params.ui = False
        params.hostnames = [str(self._socket)]
        params.api_keys = [self._key]
        params.sse_ping_interval = -1  # its own parser of the stream does not know pings
        params.verbosity = -1
        try:
            with kept_signals():
                return xllamacpp.Server(params)
        except RuntimeError as error:
            raise ModelError(
                "configuration_error",
                f"{self.path} cannot be loaded: it is no GGUF model, or memory does not suffice",
            ) from error

    def submit(self, call: Call) -> None:
        """Put a call in line. `on_chunk` and `on_end` are called in the runtime's thread."""
        with self._lock:
            if self._is_closed:
                raise _closed()
            self._waiting.append(call)
            if self._thread is None:
                # It ends when there is nothing to do, so it never holds up the end of the program.
                self._thread = threading.Thread(target=self._work, name="weft-model")
                self._thread.start()

    def call_off(self, call: Call) -> None:
        """Take a call out of the line, or stop it soon if it runs."""
        with self._lock:
            call.is_called_off = True
            if call in self._waiting:
                self._waiting.remove(call)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting or self._is_closed:
                    self._thread = self._running = None
                    return
                call = self._running = self._waiting.popleft()
            call.on_end(self._perform(call))

    def _perform(self, call: Call) -> BaseException | None:
        """Run a call to its end; what went wrong, if anything did."""
        problems: list[BaseException] = []

        def take(text: str) -> bool:
            """Whether to stop."""
            if call.is_called_off:
                return True
            try:
                chunk: Chunk = json.loads(text)
                if "error" in chunk:
                    raise _error_of(chunk["error"])
                call.on_chunk(chunk)
            except Exception as error:  # must not reach the native code
                problems.append(error)
                return True
            return False

        try:
            self._server.handle_chat_completions(json.dumps(call.body), take)
        except Exception as error:
            problems.append(ModelError("llm_error", f"the embedded model failed: {error}"))
        if call.is_called_off:  # whoever still waits has not called it off: the model was closed
            return _closed()
        return problems[0] if problems else None

    def count_tokens(self, messages: list[dict[str, str]]) -> int:
        """How many tokens the messages take, in the model's own template."""
        prompt = post(self._socket, self._key, "/apply-template", {"messages": messages})["prompt"]
        tokens = post(self._socket, self._key, "/tokenize", {"content": prompt, "parse_special": True})[
            "tokens"
        ]
        return len(tokens)

    def close(self) -> None:
        """Stop what runs, refuse what waits, and let go of the memory. Nothing happens the second time."""
        with self._lock:
            if self._is_closed or os.getpid() != self._process:  # a fork has none of the threads
                return
            self._is_closed = True
            waiting, thread = list(self._waiting), self._thread
            self._waiting.clear()
            if self._running is not None:
                self._running.is_called_off = True
        for call in waiting:
            call.on_end(_closed())
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        del self._server
        shutil.rmtree(self._folder, ignore_errors=True)
        atexit.unregister(self.close)


def import_runtime() -> Any:
    """The package `xllamacpp`; slow to import, and an extra."""
    # Read when the library is loaded: without it threads that wait burn the cores that others need.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        import xllamacpp
    except ImportError as error:
        raise MissingExtra(extra="local", purpose="an embedded model") from error
    return xllamacpp


def _short_folder() -> str | None:
    """Where temporary folders go, unless a socket's path there would be longer than the system takes."""
    return None if len(tempfile.gettempdir()) < _MAX_FOLDER else "/tmp"  # noqa: S108


def _closed() -> ModelError:
    return ModelError("llm_error", "the embedded model has been closed")


def _error_of(error: dict[str, Any]) -> ModelError:
    message = str(error.get("message", "the embedded model failed"))
    if error.get("type") == "exceed_context_size_error":
        return ContextTooLong("llm_error", f"the embedded model's window is too small: {message}")
    return ModelError("llm_error", f"the embedded model refused the request: {message}")
