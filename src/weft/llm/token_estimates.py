"""How many tokens a payload takes, where no tokenizer is at hand: the same number for the same payload."""

import msgspec

from weft.llm.payload import AssistantMessage, HandlerPayload, Message

PER_MESSAGE = 4
"""Tokens that a message takes beside its text: about what providers count for roles and separators."""


def count_text(text: str) -> int:
    """The tokens that a text is taken for: one for every four characters."""
    return (len(text) + 3) // 4


def estimated_tokens(payload: HandlerPayload) -> int:
    """The tokens that a payload is taken for, with its tools and the schema of its output."""
    schema = payload.output_schema
    return (
        count_text(payload.system_prompt)
        + count_text(payload.context or "")
        + sum(PER_MESSAGE + count_text(_text_of(message)) for message in payload.messages)
        + sum(count_text(msgspec.json.encode(tool).decode()) for tool in payload.tools)
        + (0 if schema is None else count_text(msgspec.json.encode(schema).decode()))
    )


def _text_of(message: Message) -> str:
    uses = message.tool_uses if isinstance(message, AssistantMessage) else ()
    return message.content + "".join(msgspec.json.encode(use).decode() for use in uses)
