"""Spans of model requests and tool calls, with the attributes of OpenTelemetry's gen_ai conventions."""

from typing import Any

import msgspec

from weft.evaluator.tools import ToolUse
from weft.llm.payload import AssistantMessage, FinishReason, HandlerPayload, Message, ModelReply, UserMessage
from weft.llm.protocol import Model, OnText
from weft.llm.tool_calls import sound_reply
from weft.telemetry.spans import Span, is_content_shown, span

_FINISH_REASONS: dict[FinishReason, str] = {"filtered": "content_filter", "tools": "tool_call"}
"""Finish reasons that have another name in the `gen_ai` conventions."""


def request_attributes(payload: HandlerPayload) -> dict[str, str]:
    """Return the messages of a request as span attributes; the first user message has the task's data."""
    messages = [_message(message) for message in payload.messages]
    if payload.context is not None:
        user = next((message for message in messages if message["role"] == "user"), None)
        if user is None:
            user = {"role": "user", "parts": []}
            messages.insert(0, user)
        user["parts"].insert(0, _text(payload.context))
    attributes = {"gen_ai.input.messages": _json(messages)}
    if payload.system_prompt:
        attributes["gen_ai.system_instructions"] = _json([_text(payload.system_prompt)])
    return attributes


def response_attributes(reply: ModelReply) -> dict[str, str]:
    """Return the text and the tool calls of a response as span attributes."""
    message = {
        "role": "assistant",
        "parts": _message_parts(reply.text, reply.tool_uses),
        "finish_reason": _finish_reason(reply),
    }
    return {"gen_ai.output.messages": _json([message])}


def _finish_reason(reply: ModelReply) -> str:
    return "tool_call" if reply.tool_uses else _FINISH_REASONS.get(reply.finish_reason, reply.finish_reason)


def _message(message: Message) -> dict[str, Any]:
    if isinstance(message, UserMessage):
        return {"role": "user", "parts": [_text(message.content)]}
    if isinstance(message, AssistantMessage):
        return {"role": "assistant", "parts": _message_parts(message.content, message.tool_uses)}
    response = {"type": "tool_call_response", "id": message.tool_use_id, "response": message.content}
    return {"role": "tool", "parts": [response]}


def _message_parts(text: str, uses: tuple[ToolUse, ...]) -> list[dict[str, Any]]:
    calls = [
        {"type": "tool_call", "id": use.id, "name": use.name, "arguments": use.arguments} for use in uses
    ]
    return [_text(text), *calls] if text or not calls else calls


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


_PROVIDERS = {"google": "gcp.gemini"}
"""Providers that have another name in the `gen_ai` conventions."""


async def request(model: Model, payload: HandlerPayload, on_text: OnText | None) -> ModelReply:
    """Send the payload within a span and return the sanitized response."""
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

    with span(f"chat {name}", "client", attributes) as request_span:
        if request_span.is_collected and is_content_shown():
            request_span.set(request_attributes(payload))
        reply = sound_reply(await model.request(payload, on_text))
        if request_span.is_collected:
            _set_response(request_span, reply)
        return reply


def tool_span(tool: str, use: ToolUse | None = None) -> Span:
    """Return the span of a tool call. `use` is the call of a model; None if a program calls the tool."""

    def attributes() -> dict[str, Any]:
        values = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.id": None if use is None else use.id,
        }
        if use is not None and is_content_shown():
            values["gen_ai.tool.call.arguments"] = msgspec.json.encode(use.arguments).decode()
        return values

    return span(f"execute_tool {tool}", "internal", attributes)


def _set_response(request_span: Span, reply: ModelReply) -> None:
    usage = reply.usage
    request_span.set(
        {
            "gen_ai.response.model": reply.response_model,
            "gen_ai.response.finish_reasons": [_finish_reason(reply)],
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens or None,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens or None,
        }
    )
    if is_content_shown():
        request_span.set(response_attributes(reply))
