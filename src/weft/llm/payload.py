"""Requests to models (`HandlerPayload`) and their responses (`ModelReply`)."""

import hashlib
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from weft.evaluator.tools import ToolDefinition, ToolUse
from weft.secrets.registry import redact


class UserMessage(Struct, frozen=True, tag="user", tag_field="role", omit_defaults=True):
    """A message from the user to the model."""

    content: str
    timestamp: datetime | None = None


class AssistantMessage(Struct, frozen=True, tag="assistant", tag_field="role", omit_defaults=True):
    """A response of the model, with its tool calls."""

    content: str
    tool_uses: tuple[ToolUse, ...] = ()
    timestamp: datetime | None = None


class ToolMessage(Struct, frozen=True, tag="tool", tag_field="role", omit_defaults=True):
    """The result of one tool call of the preceding assistant message."""

    content: str
    tool_use_id: str
    tool_name: str
    is_error: bool = False
    timestamp: datetime | None = None


Message = UserMessage | AssistantMessage | ToolMessage


class TurnMetrics(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Number of turns of a session: used so far, and allowed."""

    used: int
    limit: int
    last_turn_at: datetime | None = None


class ContextMetrics(Struct, frozen=True, rename="camel"):
    """Tokens of a session's payload: used in the last turn, allowed (0 if unknown), and most in any turn."""

    used: int
    limit: int
    peak_usage: int


class ResourceMetrics(Struct, frozen=True):
    """Resource usage of a session."""

    turns: TurnMetrics
    context: ContextMetrics


class PayloadMetadata(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The model of a request and its settings."""

    model: str
    temperature: float | None = None
    max_tokens: int | None = None
    resource_usage: ResourceMetrics | None = None
    template: str | None = None
    """The template that makes the request, if any. Not sent; for test models, recordings and telemetry."""


class HandlerPayload(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The request of one turn, independent of the provider."""

    system_prompt: str
    messages: tuple[Message, ...]
    context: str | None = None
    """The data of the task, apart from the conversation. Tags in the text mark where each piece begins and
    ends; adapters send the text unchanged, before the messages."""
    tools: tuple[ToolDefinition, ...] = ()
    """Tool definitions with names that providers accept."""
    output_schema: dict[str, Any] | None = None
    """The JSON Schema of the response; None for text, `{}` for JSON of any shape."""
    metadata: PayloadMetadata


FinishReason = Literal["stop", "length", "tools", "filtered", "other"]


class Usage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens and cost of a request."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None
    """In US dollars; None if the price is unknown."""
    is_estimated: bool = False
    """True if the provider reported no usage and weft estimated it."""

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class ModelReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The response of a model to one payload."""

    text: str
    tool_uses: tuple[ToolUse, ...] = ()
    """Requested tool calls. Untrusted: a name need not be one of the payload's tools."""
    usage: Usage = field(default_factory=Usage)
    finish_reason: FinishReason = "stop"
    model: str
    """`provider:model`, as requested."""
    response_model: str | None = None
    """The model name that the provider reports."""
    first_token_seconds: float | None = None
    """Seconds from the request to the first piece of the response; None if it was not streamed."""


DIGEST_BYTES = 8


def settings_digest(*settings: Any) -> str:
    """Return a digest of model settings. Secrets in them (as in an address) are redacted before hashing."""
    text = redact(msgspec.json.encode(settings).decode())
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()
