"""Requests to models and calls of tools as spans, in the words of OpenTelemetry's gen_ai conventions."""

from typing import Any

import msgspec

from weft.evaluator.tools import ToolUse
from weft.llm.payload import HandlerPayload, ModelReply
from weft.llm.protocol import Model, OnText
from weft.llm.sound_replies import sound_reply
from weft.llm.span_messages import answered_attributes, asked_attributes
from weft.telemetry.spans import Span, is_content_shown, span

_PROVIDERS = {"google": "gcp.gemini"}
"""The names of the conventions where they are not ours."""


async def request(model: Model, payload: HandlerPayload, on_text: OnText | None) -> ModelReply:
    """The answer of the model, within a span."""
    provider, _, name = model.id.partition(":")

    def attributes() -> dict[str, Any]:
        metadata = payload.metadata
        return {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
            "gen_ai.request.model": name,
            "gen_ai.request.temperature": metadata.temperature,
            "gen_ai.request.max_tokens": metadata.max_tokens,
            "gen_ai.request.stream": True if on_text is not None else None,
            "gen_ai.output.type": "text" if payload.output_schema is None else "json",
        }

    with span(f"chat {name}", "client", attributes) as asked:
        if asked.is_collected and is_content_shown():
            asked.set(asked_attributes(payload))
        reply = sound_reply(await model.request(payload, on_text))
        if asked.is_collected:
            _tell(asked, reply)
        return reply


def tool_span(tool: str, use: ToolUse | None = None) -> Span:
    """A span around the call of a tool; `use` is what a model asked for."""

    def attributes() -> dict[str, Any]:
        found = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.id": None if use is None else use.id,
        }
        if use is not None and is_content_shown():
            found["gen_ai.tool.call.arguments"] = msgspec.json.encode(use.arguments).decode()
        return found

    return span(f"execute_tool {tool}", "internal", attributes)


def _tell(asked: Span, reply: ModelReply) -> None:
    usage = reply.usage
    asked.set(
        {
            "gen_ai.response.model": reply.response_model,
            "gen_ai.response.finish_reasons": ["tool_calls" if reply.tool_uses else reply.finish_reason],
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens or None,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens or None,
        }
    )
    if is_content_shown():
        asked.set(answered_attributes(reply))
