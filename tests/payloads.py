"""Payloads for tests of models."""

from typing import Any

from weft.evaluator.tools import ToolDefinition
from weft.llm.payload import HandlerPayload, Message, PayloadMetadata, UserMessage

ECHO = ToolDefinition(
    name="system_echo",
    description="Gives the text back.",
    input_schema={
        "type": "object",
        "properties": {"text": {"type": "string", "maxLength": 40}},
        "required": ["text"],
        "additionalProperties": False,
    },
)

VERDICT = {
    "type": "object",
    "properties": {"success": {"type": "boolean"}},
    "required": ["success"],
    "additionalProperties": False,
}


def a_payload(
    prompt: str = "hi",
    *,
    before: tuple[Message, ...] = (),
    after: tuple[Message, ...] = (),
    system: str = "",
    context: str | None = None,
    tools: tuple[ToolDefinition, ...] = (),
    schema: dict[str, Any] | None = None,
    model: str = "test:scripted",
    template: str | None = None,
    max_tokens: int | None = None,
    **fields: Any,
) -> HandlerPayload:
    """Return a payload with one prompt; `fields` are those of the payload itself."""
    known: dict[str, Any] = {
        "system_prompt": system,
        "messages": (*before, UserMessage(prompt), *after),
        "context": context,
        "tools": tools,
        "output_schema": schema,
        "metadata": PayloadMetadata(model=model, template=template, max_tokens=max_tokens),
    }
    return HandlerPayload(**{**known, **fields})
