"""A file of recorded model responses, as JSON lines that people can read and compare.

Responses are indexed by their request, without times and counters. Each line is written as soon as its
response arrives, so a killed process loses no response; an incomplete last line is ignored.
"""

import difflib
import fcntl
import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from weft.errors import RequestError
from weft.llm.payload import HandlerPayload, ModelReply
from weft.llm.protocol import Features
from weft.secrets.registry import redact, redact_json, redact_struct
from weft.secrets.truncation import cut

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
