"""`HandlerPayload` and `ModelReply`: what is sent to a model and what comes back; a digest of settings."""

import hashlib
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from weft.evaluator.tools import ToolDefinition, ToolUse
from weft.secrets.registry import redact


class UserMessage(Struct, frozen=True, tag="user", tag_field="role", omit_defaults=True):
    """What the model is asked."""

    content: str
    timestamp: datetime | None = None


class AssistantMessage(Struct, frozen=True, tag="assistant", tag_field="role", omit_defaults=True):
    """What the model said, and the tools it asked for."""

    content: str
    tool_uses: tuple[ToolUse, ...] = ()
    timestamp: datetime | None = None


class ToolMessage(Struct, frozen=True, tag="tool", tag_field="role", omit_defaults=True):
    """What a tool gave for one of the uses of the message before it."""

    content: str
    tool_use_id: str
    tool_name: str
    is_error: bool = False
    timestamp: datetime | None = None


Message = UserMessage | AssistantMessage | ToolMessage


class TurnMetrics(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Requests to the model."""

    used: int
    limit: int
    last_turn_at: datetime | None = None


class ContextMetrics(Struct, frozen=True, rename="camel"):
    """Tokens in the window."""

    used: int
    limit: int
    peak_usage: int


class ResourceMetrics(Struct, frozen=True):
    """What a session has used of what it may use."""

    turns: TurnMetrics
    context: ContextMetrics


class PayloadMetadata(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Which model is to answer, and how."""

    model: str
    temperature: float | None = None
    max_tokens: int | None = None
    resource_usage: ResourceMetrics | None = None
    template: str | None = None
    """Which template asks, if one does. Not for providers: for scripted answers, recordings and telemetry."""


class HandlerPayload(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Everything a model gets for one turn. Adapters put it into the form of their provider."""

    system_prompt: str
    messages: tuple[Message, ...]
    context: str | None = None
    """The data of the task, apart from the conversation. Its text says that it is data, and marks where each
    piece begins and ends: adapters send it as it is, before the messages."""
    tools: tuple[ToolDefinition, ...] = ()
    """With names that providers take."""
    output_schema: dict[str, Any] | None = None
    """The JSON Schema that the answer is to fit; None: text. `{}` is JSON of any shape."""
    metadata: PayloadMetadata


FinishReason = Literal["stop", "length", "tools", "filtered", "other"]


class Usage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a request took."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None
    """In US dollars; None: no price is known."""
    is_estimated: bool = False
    """The model did not say; counted by us."""

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class ModelReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model answered to one payload."""

    text: str
    tool_uses: tuple[ToolUse, ...] = ()
    """With the names of the payload's tools, or others: what a model says is not to be trusted."""
    usage: Usage = field(default_factory=Usage)
    finish_reason: FinishReason = "stop"
    model: str
    """`provider:model`, as it was asked for."""
    response_model: str | None = None
    """What the provider says has answered."""


DIGEST_BYTES = 8


def settings_digest(*settings: Any) -> str:
    """The same for the same settings. An address may hold a secret: of that no hash is made."""
    text = redact(msgspec.json.encode(settings).decode())
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()
