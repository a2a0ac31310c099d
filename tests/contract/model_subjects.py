"""The models that the contract is checked on. To have another one pass, add its factory to SUBJECTS."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.model_payloads import MODEL_OF, served_models
from tests.model_server import Exchange, ModelServer, asks_for, drips, fails, gives_json, says
from weft.evaluator.tools import ToolUse
from weft.llm.payload import HandlerPayload, ModelReply, ToolMessage, Usage
from weft.llm.protocol import Features, Model, OnText
from weft.testing.recording import RecordingModel, ReplayingModel
from weft.testing.scripted_model import ScriptedModel

LONG = "Count as far as you can."
"""What is asked for an answer that takes a while."""

TOO_LONG_CHARACTERS = 100_000
"""From how many characters on the server says that a request is too long."""

FEATURES = Features(context_window=20_000, output="held")

_TOO_LONG = {
    "openai": fails(400, "too long", code="context_length_exceeded"),
    "anthropic": fails(400, "prompt is too long: 9 tokens > 8 maximum", code="invalid_request_error"),
    "google": fails(
        400,
        "The input token count (9) exceeds the maximum number of tokens allowed (8).",
        code="INVALID_ARGUMENT",
    ),
}


class Subject:
    """How a model is made, and whether it says what it is told."""

    def __init__(
        self, make: Callable[[], AbstractAsyncContextManager[Model]], *, is_told: bool = True
    ) -> None:
        self.make = make
        self.is_told = is_told
        """Its answers are those of `answer`; else it is a real one."""


def answer(payload: HandlerPayload) -> Any:
    """Return the response of a scripted model."""
    last = payload.messages[-1]
    if isinstance(last, ToolMessage):
        return f"the tool gave {last.content}"
    if payload.tools:
        return ToolUse(id="call_1", name=payload.tools[0].name, arguments={"text": "é"})
    if payload.output_schema is not None:
        return {"success": True}
    return " ".join(map(str, range(2_000))) if last.content == LONG else f"you said {last.content}"


def scripted(request: pytest.FixtureRequest) -> Subject:
    @asynccontextmanager
    async def make() -> AsyncIterator[Model]:
        yield ScriptedModel(answer, features=FEATURES)

    return Subject(make)


def recording(request: pytest.FixtureRequest) -> Subject:
    path: Path = request.getfixturevalue("tmp_path") / "cassette"

    @asynccontextmanager
    async def make() -> AsyncIterator[Model]:
        yield RecordingModel(ScriptedModel(answer, features=FEATURES), path)

    return Subject(make)


class _Replayed:
    """Replays what it has just had recorded, from the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._recording = RecordingModel(ScriptedModel(answer, features=FEATURES), path)
        self._replaying = ReplayingModel(path)

    @property
    def id(self) -> str:
        return self._replaying.id

    @property
    def features(self) -> Features:
        return self._replaying.features

    @property
    def settings_digest(self) -> str:
        return self._replaying.settings_digest

    async def request(self, payload: HandlerPayload, on_text: OnText | None = None) -> ModelReply:
        await self._recording.request(payload)
        return await ReplayingModel(self._path).request(payload, on_text)

    async def count_tokens(self, payload: HandlerPayload) -> int:
        return await self._replaying.count_tokens(payload)

    def price(self, usage: Usage) -> float | None:
        return self._replaying.price(usage)


def replaying(request: pytest.FixtureRequest) -> Subject:
    path: Path = request.getfixturevalue("tmp_path") / "cassette"

    @asynccontextmanager
    async def make() -> AsyncIterator[Model]:
        yield _Replayed(path)

    return Subject(make)


async def answer_on_the_wire(exchange: Exchange) -> None:
    """Send the same response as `answer`, from what the server sees."""
    body = exchange.request.body
    text = json.dumps(body, ensure_ascii=False)
    if len(text) > TOO_LONG_CHARACTERS:
        await _TOO_LONG[exchange.dialect](exchange)
    elif '"tool"' in text or '"tool_result"' in text or '"functionResponse"' in text:
        await says("the tool ", "gave é")(exchange)
    elif body.get("tools"):
        await asks_for("system_echo", {"text": "é"})(exchange)
    elif '"success"' in text:
        await gives_json({"success": True})(exchange)
    elif LONG in text:
        await drips("0 ", "1 ")(exchange)
    else:
        await says("you said ", _prompt(body))(exchange)


def _prompt(body: Any) -> str:
    """Return the last text of a user in a request, in any of the protocols."""
    message = (body.get("messages") or body.get("contents"))[-1]
    content = message.get("content", message.get("parts"))
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def provider(kind: str) -> Callable[[pytest.FixtureRequest], Subject]:
    def of(request: pytest.FixtureRequest) -> Subject:
        server: ModelServer = request.getfixturevalue("model_server")
        server.always(answer_on_the_wire)

        @asynccontextmanager
        async def make() -> AsyncIterator[Model]:
            models = served_models(server)
            try:
                yield await models.find(MODEL_OF[kind])
            finally:
                await models.close()

        return Subject(make)

    return of


def embedded(request: pytest.FixtureRequest) -> Subject:
    model: Model = request.getfixturevalue("smollm2")

    @asynccontextmanager
    async def make() -> AsyncIterator[Model]:
        yield model

    return Subject(make, is_told=False)


SUBJECTS = {
    "scripted": scripted,
    "recording": recording,
    "replaying": replaying,
    "openai": provider("openai"),
    "anthropic": provider("anthropic"),
    "google": provider("google"),
    "embedded": embedded,
}


async def within_reason(work: Awaitable[ModelReply]) -> ModelReply:
    """Return the response; fail a test that would wait for ever."""
    return await asyncio.wait_for(work, 120)
