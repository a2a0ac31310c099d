"""What is asked and answered, as OpenTelemetry's gen_ai conventions want it: messages that have parts."""

from typing import Any

import msgspec

from weft.evaluator.tools import ToolUse
from weft.llm.payload import AssistantMessage, FinishReason, HandlerPayload, Message, ModelReply, UserMessage

_FINISH_REASONS: dict[FinishReason, str] = {"filtered": "content_filter", "tools": "tool_call"}
"""The words of the conventions where they are not ours."""


def asked_attributes(payload: HandlerPayload) -> dict[str, str]:
    """What a model is asked. The data of the task is a part of the first thing that the user says."""
    messages = [_message(message) for message in payload.messages]
    if payload.context is not None:
        user = next((message for message in messages if message["role"] == "user"), None)
        if user is None:
            user = {"role": "user", "parts": []}
            messages.insert(0, user)
        user["parts"].insert(0, _text(payload.context))
    found = {"gen_ai.input.messages": _json(messages)}
    if payload.system_prompt:
        found["gen_ai.system_instructions"] = _json([_text(payload.system_prompt)])
    return found


def answered_attributes(reply: ModelReply) -> dict[str, str]:
    """What a model has answered."""
    reason = "tool_call" if reply.tool_uses else _FINISH_REASONS.get(reply.finish_reason, reply.finish_reason)
    message = {"role": "assistant", "parts": _said(reply.text, reply.tool_uses), "finish_reason": reason}
    return {"gen_ai.output.messages": _json([message])}


def _message(message: Message) -> dict[str, Any]:
    if isinstance(message, UserMessage):
        return {"role": "user", "parts": [_text(message.content)]}
    if isinstance(message, AssistantMessage):
        return {"role": "assistant", "parts": _said(message.content, message.tool_uses)}
    response = {"type": "tool_call_response", "id": message.tool_use_id, "response": message.content}
    return {"role": "tool", "parts": [response]}


def _said(text: str, uses: tuple[ToolUse, ...]) -> list[dict[str, Any]]:
    calls = [
        {"type": "tool_call", "id": use.id, "name": use.name, "arguments": use.arguments} for use in uses
    ]
    return [_text(text), *calls] if text or not calls else calls


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
