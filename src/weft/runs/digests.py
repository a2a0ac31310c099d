"""Digests: what two requests have in common when they are the same."""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from weft.evaluator.effects import ModelCall, Turn
from weft.llm.payload import HandlerPayload, Message
from weft.secrets.registry import redact_encoded

DIGEST_BYTES = 20


def _named(value: Any) -> str:
    """Of what is no data (a function that is in scope) only the kind: it is part of the program."""
    return type(value).__name__


_encode = msgspec.json.Encoder(enc_hook=_named, order="deterministic").encode


def digest(*parts: Any) -> str:
    """A short text that is the same for the same parts, and for no others.

    A secret counts by its name: its value may be another when a run goes on, and no hash of it is stored, for
    that lets a guess be tried.
    """
    return _hash(redact_encoded(_encode(parts)))


def reuse_digest(*parts: Any) -> str | None:
    """The same, for what other runs find an answer by; None when it holds a secret: who asks with another one
    asks for something else."""
    encoded = _encode(parts)
    return _hash(encoded) if redact_encoded(encoded) is encoded else None


def _hash(encoded: bytes) -> str:
    return hashlib.blake2b(encoded, digest_size=DIGEST_BYTES).hexdigest()


def request_digest(request: Any) -> str:
    """Of what a step asks for: on replay it must be the same."""
    if request.__class__ is ModelCall and request.conversation:
        # When an answer came is not what it says.
        turns = tuple(Turn(turn.prompt, turn.answer) for turn in request.conversation)
        request = msgspec.structs.replace(request, conversation=turns)
    return digest(type(request).__name__, request)


def turn_digest(said: Sequence[Message]) -> str:
    """Of what was said in a session so far: on replay it must be the same. Which model is asked, and how, may
    be another when a run goes on."""
    return digest(_timeless(said))


def payload_digest(payload: HandlerPayload, settings_digest: str) -> str | None:
    """Of everything a model is sent, which model, and its settings: whoever sends the same may have the same
    answer. None: it holds a secret.

    Not of times, of what is used up so far, of how long an answer may be for a budget's sake, and of the name
    of the template: none of them makes another question.
    """
    metadata = payload.metadata
    return reuse_digest(
        payload.system_prompt,
        _timeless(payload.messages),
        payload.context,
        payload.tools,
        payload.output_schema,
        metadata.model,
        metadata.temperature,
        settings_digest,
    )


def _timeless(messages: Sequence[Message]) -> list[Message]:
    return [msgspec.structs.replace(message, timestamp=None) for message in messages]
