"""Models that record responses in a file and replay them, for tests that then need no model."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

from weft.llm.context_window import estimated_tokens
from weft.llm.errors import ModelError
from weft.llm.payload import HandlerPayload, ModelReply, Usage
from weft.llm.protocol import Features, Model, Models, OnText
from weft.llm.tool_calls import sound_reply
from weft.testing.cassette import Cassette, RecordedModel
from weft.testing.scripted_model import stream

Mode = Literal["auto", "record", "replay"]
"""`record` requests everything again; `replay` requests nothing; `auto` requests only what is not
recorded."""

MILLION = 1_000_000


class RecordingModel:
    """Sends requests to another model and records its responses, but not its errors.

    A file at `path` is replaced, a Cassette is extended. `asked_as` is the name by which the model was looked
    up.
    """

    def __init__(self, inner: Model, path: Path | str | Cassette, *, asked_as: str | None = None) -> None:
        self._inner = inner
        self._cassette = path if isinstance(path, Cassette) else Cassette(path, is_new=True)
        self._cassette.add_model(_describe(inner, asked_as))

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def features(self) -> Features:
        return self._inner.features

    @property
    def settings_digest(self) -> str:
        return self._inner.settings_digest

    async def request(self, payload: HandlerPayload, on_text: OnText | None = None) -> ModelReply:
        """Return the response of the other model as it will be replayed, without secrets."""
        reply = sound_reply(await self._inner.request(payload, on_text))
        return self._cassette.add(payload, reply, await self._inner.count_tokens(payload))

    async def count_tokens(self, payload: HandlerPayload) -> int:
        return await self._inner.count_tokens(payload)

    def price(self, usage: Usage) -> float | None:
        return self._inner.price(usage)


class ReplayingModel:
    """Returns recorded responses; a repeated request gets the next of its responses.

    A request that is not recorded fails, or is sent to the model that `otherwise` returns, and recorded.
    """

    def __init__(
        self,
        path: Path | str | Cassette,
        *,
        asked_as: str | None = None,
        otherwise: Callable[[], Awaitable[Model]] | None = None,
    ) -> None:
        self._cassette = path if isinstance(path, Cassette) else Cassette(path)
        self._asked_as = asked_as
        self._otherwise = otherwise
        recorded = self._cassette.models
        found = recorded.get(asked_as) or next(iter(recorded.values()), None)
        if found is None:
            message = f"nothing is recorded in {self._cassette.path}: record it once, with a model"
            raise ModelError("configuration_error", message)
        self._model = found

    @property
    def id(self) -> str:
        return self._model.id

    @property
    def features(self) -> Features:
        return self._model.features

    @property
    def settings_digest(self) -> str:
        """Return "": recorded responses do not depend on settings."""
        return ""

    async def request(self, payload: HandlerPayload, on_text: OnText | None = None) -> ModelReply:
        """Return the recorded response, streamed word by word if `on_text` is given. Raise ModelError."""
        exchange = self._cassette.next(payload)
        if exchange is not None:
            if on_text is not None:
                await stream(exchange.reply.text, on_text)
            return exchange.reply
        if self._otherwise is None:
            raise ModelError("configuration_error", self._cassette.missing(payload))
        inner = RecordingModel(await self._otherwise(), self._cassette, asked_as=self._asked_as)
        return await inner.request(payload, on_text)

    async def count_tokens(self, payload: HandlerPayload) -> int:
        """Return the recorded count, or an estimate for a payload that is not recorded."""
        counted = self._cassette.tokens_of(payload)
        return estimated_tokens(payload) if counted is None else counted

    def price(self, usage: Usage) -> float | None:
        """Return the cost by the recorded prices, or None if they are unknown."""
        per_input, per_output = self._model.prices
        if per_input is None or per_output is None:
            return None
        return (usage.input_tokens * per_input + usage.output_tokens * per_output) / MILLION


class RecordedModels:
    """Looks models up and returns them as models that record or replay their responses."""

    def __init__(self, models: Models | None, path: Path | str, mode: Mode = "auto") -> None:
        self._inner = models
        self._mode = "replay" if models is None else mode
        self._cassette = Cassette(path, is_new=self._mode == "record")

    async def find(self, model: str | None, provider: str | None = None) -> Model:
        """Return the model, recording or replaying. Raise ModelError."""
        name = model if provider is None else f"{provider}:{(model or '').rpartition(':')[2]}"
        inner = self._inner
        if inner is None or self._mode == "replay":
            return self._replaying(name)
        if self._mode == "record":
            return RecordingModel(await inner.find(model, provider), self._cassette, asked_as=name)
        if name not in self._cassette.models:
            self._cassette.add_model(_describe(await inner.find(model, provider), name))
        # Looked up only for a request that is not recorded, so that a full recording needs no API key.
        return ReplayingModel(self._cassette, asked_as=name, otherwise=lambda: inner.find(model, provider))

    async def close(self) -> None:
        """Close the models that requests were sent to."""
        if self._inner is not None:
            await self._inner.close()

    def _replaying(self, name: str | None) -> Model:
        models = self._cassette.models
        if models and name not in models:
            known = ", ".join(one or "the default model" for one in models)
            message = f"the model '{name}' is not recorded in {self._cassette.path} (recorded: {known})"
            raise ModelError("configuration_error", message)
        return ReplayingModel(self._cassette, asked_as=name)


def recorded(model: Model | None, path: Path | str, mode: Mode = "auto") -> Model:
    """Return the model with its responses recorded in a file or replayed from it.

    Without a model, responses are only replayed.
    """
    if model is None or mode == "replay":
        return ReplayingModel(path)
    if mode == "record":
        return RecordingModel(model, path)
    cassette = Cassette(path)
    if not cassette.models:
        cassette.add_model(_describe(model, None))

    async def get_model() -> Model:
        return model

    return ReplayingModel(cassette, otherwise=get_model)


def recorded_models(models: Models | None, path: Path | str, mode: Mode = "auto") -> RecordedModels:
    """Return models that share one file of recorded responses; without `models`, they are only replayed."""
    return RecordedModels(models, path, mode)


def _describe(model: Model, asked_as: str | None) -> RecordedModel:
    prices = (model.price(Usage(input_tokens=MILLION)), model.price(Usage(output_tokens=MILLION)))
    return RecordedModel(id=model.id, asked_as=asked_as, features=model.features, prices=prices)
