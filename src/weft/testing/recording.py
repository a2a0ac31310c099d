"""Models that record responses in a file and replay them, for tests that then need no model.

The file, a cassette, has JSON lines that people can read and compare. Responses are indexed by their request,
without times and counters. Each line is written as soon as its response arrives, so a killed process loses no
response; an incomplete last line is ignored.
"""

import difflib
import fcntl
import hashlib
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from weft.effects.local import LocalEffects
from weft.effects.resources import ProjectResources
from weft.errors import RequestError
from weft.llm.context_window import estimated_tokens
from weft.llm.errors import ModelError
from weft.llm.payload import HandlerPayload, ModelReply, Usage
from weft.llm.protocol import Features, Model, Models, OnText
from weft.llm.tool_calls import sound_reply
from weft.secrets.registry import redact, redact_json, redact_struct
from weft.secrets.truncation import cut
from weft.testing.scripted_model import stream

Mode = Literal["auto", "record", "replay"]
"""`record` requests everything again; `replay` requests nothing; `auto` requests only what is not
recorded."""

MILLION = 1_000_000


VERSION = 1

MAX_COMPARED = 200
"""How many recorded requests, the latest ones, are compared with one that is not recorded."""

MAX_DIFF_LINES = 20

_COUNTERS = ("resourceUsage", "maxTokens")
"""Metadata about usage and the remaining budget, which is not part of the request."""


class BadCassette(RequestError):
    """A file of recorded responses is invalid."""

    code = "bad-cassette"


class RecordedModel(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts about a model that are kept in a cassette."""

    id: str
    asked_as: str | None = None
    """The name by which it was looked up; None for the default model."""
    features: Features = field(default_factory=Features)
    prices: tuple[float | None, float | None] = (None, None)
    """US dollars per million tokens of input and output."""


class Exchange(Struct, frozen=True, kw_only=True):
    """A request and its response."""

    key: str
    tokens: int
    """The tokens of the request, as the model counted them."""
    request: dict[str, Any]
    reply: ModelReply


class _Line(Struct, frozen=True, kw_only=True, omit_defaults=True):
    cassette: int | None = None
    model: RecordedModel | None = None
    exchange: Exchange | None = None


class Cassette:
    """The responses of a file, in the order of their recording; `is_new` deletes an existing file."""

    def __init__(self, path: Path | str, *, is_new: bool = False) -> None:
        self.path = Path(path)
        self.models: dict[str | None, RecordedModel] = {}
        self._exchanges: dict[str, list[Exchange]] = {}
        self._used: Counter[str] = Counter()
        """How many recorded responses were used, by request key."""
        if is_new:
            self.path.unlink(missing_ok=True)
        elif self.path.exists():
            self._read()

    @property
    def is_empty(self) -> bool:
        return not self._exchanges

    def next(self, payload: HandlerPayload) -> Exchange | None:
        """Return the next recorded response to the payload, or None if all were used."""
        key = key_of(request_of(payload))
        recorded = self._exchanges.get(key, [])
        index = self._used[key]
        if index >= len(recorded):
            return None
        self._used[key] += 1
        return recorded[index]

    def tokens_of(self, payload: HandlerPayload) -> int | None:
        """Return the recorded token count of the payload, or None if it is not recorded."""
        recorded = self._exchanges.get(key_of(request_of(payload)))
        return recorded[0].tokens if recorded else None

    def add_model(self, model: RecordedModel) -> None:
        """Record a model, unless the same facts are already recorded for its name."""
        if self.models.get(model.asked_as) != model:
            self.models[model.asked_as] = model
            self._append(_Line(model=model))

    def add(self, payload: HandlerPayload, reply: ModelReply, tokens: int) -> ModelReply:
        """Record a response and return it as it will be replayed, without secrets."""
        request = request_of(payload)
        kept = redact_struct(reply)
        exchange = Exchange(key=key_of(request), tokens=tokens, request=request, reply=kept)
        self._exchanges.setdefault(exchange.key, []).append(exchange)
        self._used[exchange.key] += 1
        self._append(_Line(exchange=exchange))
        return kept

    def missing(self, payload: HandlerPayload) -> str:
        """Return why the payload has no recorded response, with a diff to the nearest recorded request."""
        request = request_of(payload)
        recorded = len(self._exchanges.get(key_of(request), []))
        if recorded:
            return f"this request is recorded {recorded} times in {self.path}, and was sent once more"
        everything = [exchange.request for exchanges in self._exchanges.values() for exchange in exchanges]
        if not everything:
            return f"nothing is recorded in {self.path}"
        return f"this request is not recorded in {self.path}; the nearest one that is:\n" + _diff_to_nearest(
            request, everything[-MAX_COMPARED:]
        )

    def _read(self) -> None:
        lines = self.path.read_bytes().split(b"\n")
        # Text after the last line end is incomplete: the process was killed while it wrote.
        for number, text in enumerate(lines[:-1], 1):
            if text.strip():
                self._read_line(text, f"{self.path}:{number}")

    def _read_line(self, text: bytes, where: str) -> None:
        try:
            line = msgspec.json.decode(text, type=_Line)
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
            raise BadCassette(
                f"{where}: not a line of a cassette: {error}; remove the line or record again"
            ) from error
        if line.cassette is not None and line.cassette != VERSION:
            raise BadCassette(f"{where}: a cassette of version {line.cassette}; this weft reads {VERSION}")
        if line.model is not None:
            self.models[line.model.asked_as] = line.model
        if line.exchange is not None:
            self._exchanges.setdefault(_key_of_recorded(line.exchange), []).append(line.exchange)

    def _append(self, line: _Line) -> None:
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._write(_Line(cassette=VERSION))
        self._write(line)

    def _write(self, line: _Line) -> None:
        text = msgspec.json.encode(line, order="deterministic") + b"\n"
        file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)  # held until close, because several processes may record
            _drop_incomplete_line(file)
            os.write(file, text)
        finally:
            os.close(file)


def _drop_incomplete_line(file: int) -> None:
    """Truncate a file to its last line end. The caller holds the lock, so nobody is writing that line."""
    size = end = os.fstat(file).st_size
    while end > 0:
        start = max(0, end - 65536)
        line_end = os.pread(file, end - start, start).rfind(b"\n")
        if line_end >= 0:
            end = start + line_end + 1
            break
        end = start
    if end < size:
        os.ftruncate(file, end)


def request_of(payload: HandlerPayload) -> dict[str, Any]:
    """Return the request as JSON, without times, counters and secrets."""
    plain = _stable(msgspec.to_builtins(payload))
    found: dict[str, Any] = redact_json(plain)
    return found


def key_of(request: dict[str, Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(request, order="deterministic")).hexdigest()[:16]


def _key_of_recorded(exchange: Exchange) -> str:
    """Return the current key of a recorded exchange: older cassettes hashed the counters too."""
    try:
        return key_of(_stable(exchange.request))
    except (LookupError, TypeError, AttributeError):  # edited by hand: the written key counts
        return exchange.key


def _stable(request: dict[str, Any]) -> dict[str, Any]:
    """Return the payload without its own times and counters; fields of the same name in user data stay."""
    metadata = {key: value for key, value in request["metadata"].items() if key not in _COUNTERS}
    messages = [
        {key: value for key, value in message.items() if key != "timestamp"}
        for message in request["messages"]
    ]
    return {**request, "metadata": metadata, "messages": messages}


def _diff_to_nearest(request: dict[str, Any], recorded: Sequence[dict[str, Any]]) -> str:
    asked = _lines(request)
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(asked)

    def likeness(other: list[str]) -> float:
        matcher.set_seq1(other)
        return matcher.ratio()

    nearest = max(map(_lines, recorded), key=likeness)
    found = difflib.unified_diff(nearest, asked, "recorded", "asked", n=1, lineterm="")
    shown = [cut(line, 200) for line in found]
    more = [f"... and {len(shown) - MAX_DIFF_LINES} lines more"] if len(shown) > MAX_DIFF_LINES else []
    return redact("\n".join(shown[:MAX_DIFF_LINES] + more))


def _lines(value: Any, where: str = "") -> list[str]:
    """Return the value as lines, with texts split, so that a change in a long prompt shows as one line."""
    if isinstance(value, dict):
        return [
            line for key, part in sorted(value.items()) for line in _lines(part, f"{where}.{key}".lstrip("."))
        ]
    if isinstance(value, list):
        return [line for index, part in enumerate(value) for line in _lines(part, f"{where}[{index}]")]
    if isinstance(value, str):
        return [f"{where}: {line}" for line in value.split("\n")]
    return [f"{where}: {value}"]


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
        self.id = found.id
        self.features = found.features
        self.settings_digest = ""
        self._prices = found.prices

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
        per_input, per_output = self._prices
        if per_input is None or per_output is None:
            return None
        return (usage.input_tokens * per_input + usage.output_tokens * per_output) / MILLION


class RecordedModels:
    """Looks models up and returns them as models that record their responses in one file, or replay them.

    Without `models`, responses are only replayed.
    """

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


recorded_models = RecordedModels


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


def recorded_effects(path: Path | str, mode: Mode = "auto", **options: Any) -> LocalEffects:
    """Return effects that record the responses of the project's models in a file, or replay them from it.

    Everything else is performed: tools are called, scripts run. `options` are those of `LocalEffects`.
    """
    return LocalEffects(models=recorded_models(_ProjectModels(), path, mode), **options)


class _ProjectModels:
    """The models that `weft.toml` and the environment name, read when the first one is looked up."""

    def __init__(self) -> None:
        self._resources = ProjectResources()

    async def find(self, model: str | None, provider: str | None = None) -> Model:
        return await self._resources.models().find(model, provider)

    async def close(self) -> None:
        await self._resources.close()


def _describe(model: Model, asked_as: str | None) -> RecordedModel:
    prices = (model.price(Usage(input_tokens=MILLION)), model.price(Usage(output_tokens=MILLION)))
    return RecordedModel(id=model.id, asked_as=asked_as, features=model.features, prices=prices)
