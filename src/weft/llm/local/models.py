"""`local:NAME`: the embedded models as models like any other."""

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
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
)
from weft.llm.local.chat import grammar_for, messages_of, read_turn
from weft.llm.local.embeddings import EmbeddingModel
from weft.llm.local.gguf import read_facts
from weft.llm.local.runtime import DEFAULT_MAX_TOKENS, Chunk, Runtime, RuntimeSettings
from weft.llm.payload import FinishReason, HandlerPayload, ModelReply, Usage, settings_digest
from weft.llm.protocol import Features, OnText

Fetch = Callable[[Entry, threading.Event], object]
"""Brings a model that is not here, in a thread; ends early once the event is set."""

_FINISH_REASONS: dict[str, FinishReason] = {"stop": "stop", "length": "length"}


class EmbeddedModels:
    """The models `local:NAME`, each loaded once per process whoever asks."""

    def __init__(
        self,
        *,
        folder: Path | None = None,
        settings: RuntimeSettings | None = None,
        fetch: Fetch | None = None,
    ) -> None:
        """`fetch` brings a model that is not here; without it that is an error which says how to get it."""
        self._folder = folder
        self._fetch = fetch
        self._settings = settings

    async def find(self, model: str | None, provider: str | None = None) -> "EmbeddedModel":
        """The model of `local:NAME` or `NAME`; None: the best one present. Loads it. Raises ModelError."""
        if provider not in (None, PROVIDER):
            raise ModelError("configuration_error", f"'{provider}' is not the provider of embedded models")
        file = await self._file(model, "text")
        if is_path(file.name):
            check_makes(file.name, (await asyncio.to_thread(read_facts, file.path)).makes, "text")
        runtime = runtime_of(file.path.resolve(), self._settings or settings_from())
        await runtime.start()
        return EmbeddedModel(file, runtime)

    async def find_embedding(self, model: str | None = None) -> EmbeddingModel:
        """The model of `local:NAME` or `NAME` that makes embeddings; None: the best one present. Loads it.

        Raises ModelError.
        """
        file = await self._file(model, "embeddings")
        facts = await asyncio.to_thread(read_facts, file.path)
        check_makes(file.name, facts.makes, "embeddings")
        settings = self._settings or settings_from()
        window = min(settings.context_window, facts.context_length)
        settings = structs.replace(settings, context_window=window, is_embedding=True)
        runtime = runtime_of(file.path.resolve(), settings)
        await runtime.start()
        return EmbeddingModel(file, runtime, dimensions=facts.embedding_length)

    async def _file(self, model: str | None, makes: Makes) -> LocalFile:
        """A model's file, which is fetched if need be."""
        name = (model or AUTO).removeprefix(f"{PROVIDER}:")
        if self._fetch is not None and (missing := missing_entry(name, self._folder, makes)):
            stop = threading.Event()
            try:
                await asyncio.to_thread(self._fetch, missing, stop)
            finally:
                stop.set()
        # In a thread: a file that was not looked at yet is hashed.
        return await asyncio.to_thread(locate, name, self._folder, makes)

    async def close(self) -> None:
        """Nothing is let go of: a model stays in memory until the program ends, for whoever asks next."""


_known = threading.Lock()
_runtimes: dict[tuple[Path, RuntimeSettings], Runtime] = {}
"""The runtimes of this process. They are shared by all event loops and threads, and end with the process."""


def runtime_of(path: Path, settings: RuntimeSettings) -> Runtime:
    """The one runtime of a file."""
    with _known:
        runtime = _runtimes.get((path, settings))
        if runtime is None or runtime.is_closed:
            runtime = _runtimes[path, settings] = Runtime(path, settings)
        return runtime


class EmbeddedModel:
    """A loaded model. Calls are answered one after the other, whichever loop or thread they come from."""

    def __init__(self, file: LocalFile, runtime: Runtime) -> None:
        self._file = file
        self._runtime = runtime

    @property
    def id(self) -> str:
        return self._file.id

    @property
    def features(self) -> Features:
        """Output is held to its schema, and tool calls to theirs, by a grammar."""
        window = self._runtime.settings.context_window
        # The bound of answers that name none: no budget may make them longer.
        longest = min(DEFAULT_MAX_TOKENS, window)
        return Features(context_window=window, max_output_tokens=longest, output="held", is_local=True)

    @property
    def settings_digest(self) -> str:
        """Of a file that somebody else may put another one in the place of: when it was written."""
        if not is_path(self._file.name):
            return ""
        facts = self._file.path.stat()
        return settings_digest(facts.st_size, facts.st_mtime_ns)

    async def request(
        self, payload: HandlerPayload, on_text: OnText | None = None, *, must_use_tool: bool = False
    ) -> ModelReply:
        """The answer. Cancelling it gives its place in the line free, or stops it within a few tokens."""
        answer = _Answer(payload, on_text)
        async with aclosing(self._runtime.chunks(body_of(payload, must_use_tool=must_use_tool))) as chunks:
            async for chunk in chunks:
                answer.take(chunk)
        return answer.reply(self.id)

    def listen(self) -> AbstractAsyncContextManager[tuple[str, str]]:
        """Let other processes of this machine use the model for as long as the block: base URL and key."""
        return self._runtime.listen()

    async def count_tokens(self, payload: HandlerPayload) -> int:
        """Exact: the payload in the model's own template and tokens."""
        return await self._runtime.count_tokens(messages_of(payload))

    def price(self, usage: Usage) -> float | None:
        """Nothing."""
        return 0.0


class _Answer:
    """Gathers the pieces of one answer."""

    def __init__(self, payload: HandlerPayload, on_text: OnText | None) -> None:
        self._payload = payload
        # With tools what comes is JSON around the answer: its text is handed on when it is known.
        self._on_text = on_text
        self._pieces: list[str] = []
        self._usage = Usage()
        self._finish: FinishReason = "other"

    def take(self, chunk: Chunk) -> None:
        if usage := chunk.get("usage"):
            self._usage = _usage_of(usage)
        for choice in chunk.get("choices") or ():
            if text := (choice.get("delta") or {}).get("content"):
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
        )


def body_of(payload: HandlerPayload, *, must_use_tool: bool = False) -> dict[str, Any]:
    """The request as the runtime takes it. Without a temperature: the likeliest answer, always the same."""
    body: dict[str, Any] = {
        "messages": messages_of(payload),
        "max_tokens": payload.metadata.max_tokens or DEFAULT_MAX_TOKENS,
        "temperature": payload.metadata.temperature or 0.0,
        "seed": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "cache_prompt": True,
        # Comes between batches of the prompt: a call that is called off can stop there.
        "return_progress": True,
    }
    if grammar := grammar_for(payload, must_use_tool=must_use_tool):
        body["grammar"] = grammar
    return body


def _usage_of(usage: dict[str, Any]) -> Usage:
    details = usage.get("prompt_tokens_details") or {}
    return Usage(
        input_tokens=usage.get("prompt_tokens", 0),
        output_tokens=usage.get("completion_tokens", 0),
        cache_read_tokens=details.get("cached_tokens", 0),
        cost=0.0,
    )


def settings_from(environment: Mapping[str, str] = os.environ) -> RuntimeSettings:
    """What `WEFT_LOCAL_CONTEXT` and `WEFT_LOCAL_THREADS` say."""
    defaults = RuntimeSettings()
    return RuntimeSettings(
        context_window=_whole(environment, "WEFT_LOCAL_CONTEXT", 512, 1_048_576) or defaults.context_window,
        threads=_whole(environment, "WEFT_LOCAL_THREADS", 1, 1_024),
    )


def _whole(environment: Mapping[str, str], name: str, least: int, most: int) -> int | None:
    text = environment.get(name)
    if not text:
        return None
    if not (text.isdecimal() and least <= int(text) <= most):
        raise ModelError(
            "configuration_error", f"{name} is {text!r}; it can be a number from {least} to {most}"
        )
    return int(text)
