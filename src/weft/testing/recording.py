"""Models whose answers are recorded once and replayed ever after: for tests that then need no model."""

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
"""`record` asks for everything anew; `replay` asks for nothing; `auto` asks for what is not recorded."""

MILLION = 1_000_000


class RecordingModel:
    """Asks another model, and records what it answers. Errors are not recorded."""

    def __init__(self, inner: Model, path: Path | str | Cassette, *, asked_as: str | None = None) -> None:
        self._inner = inner
        self._cassette = path if isinstance(path, Cassette) else Cassette(path, is_new=True)
        self._cassette.add_model(_known(inner, asked_as))

    @property
    def id(self) -> str:
        """That of the model that is asked."""
        return self._inner.id

    @property
    def features(self) -> Features:
        """Those of the model that is asked."""
        return self._inner.features

    @property
    def settings_digest(self) -> str:
        """That of the model that is asked."""
        return self._inner.settings_digest

    async def request(self, payload: HandlerPayload, on_text: OnText | None = None) -> ModelReply:
        """The answer of the other model. What is given is what is replayed: without secrets."""
        reply = sound_reply(await self._inner.request(payload, on_text))
        return self._cassette.add(payload, reply, await self._inner.count_tokens(payload))

    async def count_tokens(self, payload: HandlerPayload) -> int:
        """What the other model counts."""
        return await self._inner.count_tokens(payload)

    def price(self, usage: Usage) -> float | None:
        """What the other model says."""
        return self._inner.price(usage)


class ReplayingModel:
    """Gives recorded answers; the same request asked again gives the next of its answers.

    What is not recorded fails, or is asked of the model that `otherwise` finds, and recorded.
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
        known = self._cassette.models
        found = known.get(asked_as) or next(iter(known.values()), None)
        if found is None:
            message = f"nothing is recorded in {self._cassette.path}: record it once, with a model"
            raise ModelError("configuration_error", message)
        self._model = found

    @property
    def id(self) -> str:
        """That of the model that was recorded."""
        return self._model.id

    @property
    def features(self) -> Features:
        """Those of the model that was recorded."""
        return self._model.features

    @property
    def settings_digest(self) -> str:
        """What is replayed does not depend on settings."""
        return ""

    async def request(self, payload: HandlerPayload, on_text: OnText | None = None) -> ModelReply:
        """The recorded answer, word by word if somebody listens; raises ModelError when there is none."""
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
        """What was counted when the payload was recorded; of others an estimate."""
        counted = self._cassette.tokens_of(payload)
        return estimated_tokens(payload) if counted is None else counted

    def price(self, usage: Usage) -> float | None:
        """What the usage costs by the prices of the model when it was recorded."""
        per_input, per_output = self._model.prices
        if per_input is None or per_output is None:
            return None
        return (usage.input_tokens * per_input + usage.output_tokens * per_output) / MILLION


class RecordedModels:
    """The models that others find, each recorded; when replaying, those that were found then."""

    def __init__(self, models: Models | None, path: Path | str, mode: Mode = "auto") -> None:
        self._inner = models
        self._mode = "replay" if models is None else mode
        self._cassette = Cassette(path, is_new=self._mode == "record")

    async def find(self, model: str | None, provider: str | None = None) -> Model:
        """The model, recorded or replayed. Raises ModelError."""
        name = model if provider is None else f"{provider}:{(model or '').rpartition(':')[2]}"
        inner = self._inner
        if inner is None or self._mode == "replay":
            return self._replaying(name)
        if self._mode == "record":
            return RecordingModel(await inner.find(model, provider), self._cassette, asked_as=name)
        if name not in self._cassette.models:
            self._cassette.add_model(_known(await inner.find(model, provider), name))
        # Looked for only when something new is asked: with everything recorded, no key is needed.
        return ReplayingModel(self._cassette, asked_as=name, otherwise=lambda: inner.find(model, provider))

    async def close(self) -> None:
        """Close the models that were asked."""
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
    """The model with its answers recorded in a file, or replayed from it; without a model only replayed."""
    if model is None or mode == "replay":
        return ReplayingModel(path)
    if mode == "record":
        return RecordingModel(model, path)
    cassette = Cassette(path)
    if not cassette.models:
        cassette.add_model(_known(model, None))

    async def found() -> Model:
        return model

    return ReplayingModel(cassette, otherwise=found)


def recorded_models(models: Models | None, path: Path | str, mode: Mode = "auto") -> RecordedModels:
    """All models with their answers recorded in one file, or replayed from it; without any only replayed."""
    return RecordedModels(models, path, mode)


def _known(model: Model, asked_as: str | None) -> RecordedModel:
    prices = (model.price(Usage(input_tokens=MILLION)), model.price(Usage(output_tokens=MILLION)))
    return RecordedModel(id=model.id, asked_as=asked_as, features=model.features, prices=prices)
