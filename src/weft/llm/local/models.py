"""Implementations of `Models` and `Model` for the embedded models `local:NAME`."""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from typing import Any

from msgspec import structs

from weft.llm.errors import ModelError
from weft.llm.local.catalogue import (
    AUTO,
    PROVIDER,
    Entry,
    LocalFile,
    Makes,
    check_makes,
    is_path,
    locate,
    missing_entry,
    sha256_of,
)
from weft.llm.local.chat import grammar_for, messages_of, read_turn
from weft.llm.local.embeddings import EmbeddingModel
from weft.llm.local.gguf import read_metadata
from weft.llm.local.runtime import DEFAULT_MAX_TOKENS, Chunk, Runtime, RuntimeSettings
from weft.llm.payload import FinishReason, HandlerPayload, ModelReply, Usage, settings_digest
from weft.llm.protocol import Features, OnText

Fetch = Callable[[Entry, threading.Event], object]
"""Downloads a missing model. Called in a thread; returns early once the event is set."""

_FINISH_REASONS: dict[str, FinishReason] = {"stop": "stop", "length": "length"}


class EmbeddedModels:
    """Implements `Models` for `local:NAME`. Each model is loaded once per process."""

    def __init__(
        self,
        *,
        folder: Path | None = None,
        settings: RuntimeSettings | None = None,
        fetch: Fetch | None = None,
    ) -> None:
        """Create the registry. `fetch` downloads missing models; without it a missing model is an error."""
        self._folder = folder
        self._fetch = fetch
        self._settings = settings

    async def find(self, model: str | None, provider: str | None = None) -> "EmbeddedModel":
        """Find and load `local:NAME` or `NAME`; None finds the best installed model. Raise ModelError."""
        if provider not in (None, PROVIDER):
            raise ModelError("configuration_error", f"'{provider}' is not the provider of embedded models")
        file = await self._file(model, "text")
        if is_path(file.name):
            check_makes(file.name, (await asyncio.to_thread(read_metadata, file.path)).makes, "text")
        runtime = get_runtime(file.path.resolve(), self._settings or settings_from())
        await runtime.start()
        return EmbeddedModel(file, runtime)

    async def find_embedding(self, model: str | None = None) -> EmbeddingModel:
        """Find and load the embedding model `local:NAME` or `NAME`; None finds the best installed one.

        Raise ModelError.
        """
        file = await self._file(model, "embeddings")
        metadata = await asyncio.to_thread(read_metadata, file.path)
        check_makes(file.name, metadata.makes, "embeddings")
        settings = self._settings or settings_from()
        window = min(settings.context_window, metadata.context_length)
        settings = structs.replace(settings, context_window=window, is_embedding=True)
        runtime = get_runtime(file.path.resolve(), settings)
        await runtime.start()
        return EmbeddingModel(file, runtime, dimensions=metadata.embedding_length)

    async def _file(self, model: str | None, makes: Makes) -> LocalFile:
        """Return a model's verified file; if it is missing and there is a `fetch`, download it first."""
        name = (model or AUTO).removeprefix(f"{PROVIDER}:")
        if self._fetch is not None and (missing := missing_entry(name, self._folder, makes)):
            stop = threading.Event()
            try:
                await asyncio.to_thread(self._fetch, missing, stop)
            finally:
                stop.set()
        # In a thread, because it may hash the file.
        return await asyncio.to_thread(locate, name, self._folder, makes)

    async def close(self) -> None:
        """Do nothing: models stay in memory for later requests until the process ends."""


_runtimes_lock = threading.Lock()
_runtimes: dict[tuple[Path, RuntimeSettings], Runtime] = {}
"""The runtimes of this process. They are shared by all event loops and threads, and end with the process."""


def get_runtime(path: Path, settings: RuntimeSettings) -> Runtime:
    """Return the shared runtime of a file with these settings."""
    with _runtimes_lock:
        runtime = _runtimes.get((path, settings))
        if runtime is None or runtime.is_closed:
            runtime = _runtimes[path, settings] = Runtime(path, settings)
        return runtime


class EmbeddedModel:
    """A loaded model. It serves one request at a time, from any event loop or thread."""

    def __init__(self, file: LocalFile, runtime: Runtime) -> None:
        self._file = file
        self._runtime = runtime

    @property
    def id(self) -> str:
        return self._file.id

    @property
    def features(self) -> Features:
        window = self._runtime.settings.context_window
        # Responses end there without `max_tokens`, and a budget must not request longer ones.
        longest = min(DEFAULT_MAX_TOKENS, window)
        return Features(context_window=window, max_output_tokens=longest, output="held", is_local=True)

    @property
    def settings_digest(self) -> str:
        """Return a digest of size and time of a user's file, which may change; empty for other models."""
        if not is_path(self._file.name):
            return ""
        status = self._file.path.stat()
        return settings_digest(status.st_size, status.st_mtime_ns)

    async def request(
        self, payload: HandlerPayload, on_text: OnText | None = None, *, must_use_tool: bool = False
    ) -> ModelReply:
        """Send the payload and return the response.

        `must_use_tool` forbids an answer without a tool call. Cancellation removes a waiting request from the
        queue, or stops the model within a few tokens.
        """
        response = _ResponseBuilder(payload, on_text)
        body = build_request(payload, must_use_tool=must_use_tool)
        async with aclosing(self._runtime.chunks(body)) as chunks:
            async for chunk in chunks:
                response.add(chunk)
        return response.reply(self.id)

    def listen(self) -> AbstractAsyncContextManager[tuple[str, str]]:
        """Let other processes of this machine use the model during the block; yield its base URL and key."""
        return self._runtime.listen()

    async def count_tokens(self, payload: HandlerPayload) -> int:
        return await self._runtime.count_tokens(messages_of(payload))

    def price(self, usage: Usage) -> float | None:
        return 0.0


class _ResponseBuilder:
    """Assembles a reply from the chunks of one response."""

    def __init__(self, payload: HandlerPayload, on_text: OnText | None) -> None:
        self._payload = payload
        # With tools the response is JSON around the answer, so its text is passed on only at the end.
        self._on_text = on_text
        self._pieces: list[str] = []
        self._began_at = time.monotonic()
        self._first_token_seconds: float | None = None
        self._usage = Usage()
        self._finish: FinishReason = "other"

    def add(self, chunk: Chunk) -> None:
        if usage := chunk.get("usage"):
            self._usage = _parse_usage(usage)
        for choice in chunk.get("choices") or ():
            if text := (choice.get("delta") or {}).get("content"):
                if not self._pieces:
                    self._first_token_seconds = round(time.monotonic() - self._began_at, 3)
                self._pieces.append(text)
                if self._on_text is not None and not self._payload.tools:
                    self._on_text(text)
            if reason := choice.get("finish_reason"):
                self._finish = _FINISH_REASONS.get(reason, "other")

    def reply(self, model: str) -> ModelReply:
        text, uses = read_turn("".join(self._pieces), self._payload)
        if self._on_text is not None and self._payload.tools and text:
            self._on_text(text)
        return ModelReply(
            text=text,
            tool_uses=uses,
            usage=self._usage,
            finish_reason="tools" if uses else self._finish,
            model=model,
            response_model=model,
            first_token_seconds=self._first_token_seconds,
        )


EMBEDDED_TOKENS = 128
"""Most tokens read of a text: the length the model was trained on; more would only take longer."""


class LocalEmbedder:
    """The embedder `local:NAME`, loaded on first use. Threads may share it."""

    def __init__(self, name: str, fetch: Fetch | None = None) -> None:
        """Initialize; `fetch` downloads a missing model; without it, a missing model is an error."""
        self._name = name
        self._models = EmbeddedModels(fetch=fetch)
        self._lock = threading.Lock()
        self._found: tuple[EmbeddingModel, str] | None = None

    @property
    def id(self) -> str:
        """Return the model name with the hash of its weights and the token limit."""
        return self._loaded()[1]

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a unit vector for the first tokens of each text; raise ModelError."""
        model, _ = self._loaded()
        return asyncio.run(model.embed(texts, max_tokens=EMBEDDED_TOKENS)).vectors

    def _loaded(self) -> tuple[EmbeddingModel, str]:
        with self._lock:
            if self._found is None:
                model = asyncio.run(self._models.find_embedding(self._name))
                self._found = model, f"{model.id} {sha256_of(model.path)[:16]} {EMBEDDED_TOKENS}"
            return self._found


def build_request(payload: HandlerPayload, *, must_use_tool: bool = False) -> dict[str, Any]:
    """Build the body of a request to the runtime. The default temperature 0 makes responses deterministic."""
    body: dict[str, Any] = {
        "messages": messages_of(payload),
        "max_tokens": payload.metadata.max_tokens or DEFAULT_MAX_TOKENS,
        "temperature": payload.metadata.temperature or 0.0,
        "seed": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "cache_prompt": True,
        # Sends a chunk after each batch of the prompt, so that a cancelled request can stop there.
        "return_progress": True,
    }
    if grammar := grammar_for(payload, must_use_tool=must_use_tool):
        body["grammar"] = grammar
    return body


def _parse_usage(usage: dict[str, Any]) -> Usage:
    details = usage.get("prompt_tokens_details") or {}
    return Usage(
        input_tokens=usage.get("prompt_tokens", 0),
        output_tokens=usage.get("completion_tokens", 0),
        cache_read_tokens=details.get("cached_tokens", 0),
        cost=0.0,
    )


def settings_from(environment: Mapping[str, str] = os.environ) -> RuntimeSettings:
    """Read the settings from `WEFT_LOCAL_CONTEXT` and `WEFT_LOCAL_THREADS`."""
    defaults = RuntimeSettings()
    return RuntimeSettings(
        context_window=_parse_int(environment, "WEFT_LOCAL_CONTEXT", 512, 1_048_576)
        or defaults.context_window,
        threads=_parse_int(environment, "WEFT_LOCAL_THREADS", 1, 1_024),
    )


def _parse_int(environment: Mapping[str, str], name: str, least: int, most: int) -> int | None:
    text = environment.get(name)
    if not text:
        return None
    if not (text.isdecimal() and least <= int(text) <= most):
        raise ModelError(
            "configuration_error", f"{name} is {text!r}; it must be a whole number from {least} to {most}"
        )
    return int(text)
