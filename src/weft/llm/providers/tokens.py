"""How many tokens a payload takes, when its tokenizer is not at hand: rather too many than too few."""

import json
import re

from weft.llm.payload import AssistantMessage, HandlerPayload, Message

_PIECE = re.compile(r"[A-Z]?[a-z]{1,4}|[A-Z]{1,2}|[0-9]|[^\sA-Za-z0-9]|[\n\r]+|\t+|[^\S\n\r\t]{2,}")
_DENSE = re.compile(r"[A-Za-z0-9+/]{24,}")
"""With a digit in it: hashes and base64. Their letters make no words, and tokens of one or two letters."""
_DIGIT = re.compile("[0-9]")

MESSAGE_TOKENS = 8
"""What roles and separators take for each message."""

TOOL_TOKENS = 16

EXPECTED_OUTPUT_TOKENS = 1_000
"""What an answer is taken for before it is there, when the request does not bound it."""


def estimate(text: str) -> int:
    """A number of tokens that tokenizers in use stay below on ordinary text.

    Counted are pieces of words of at most four letters, each digit, each sign and each run of blanks; more
    for what is no words; and every byte of a character that is not ASCII, which is the most that a byte-level
    tokenizer can make of it.
    """
    count = len(_PIECE.findall(text)) + sum(
        len(run) // 4 for run in _DENSE.findall(text) if _DIGIT.search(run)
    )
    return count if text.isascii() else count + len(text.encode("utf-8", "surrogatepass")) - len(text)


def estimate_payload(payload: HandlerPayload) -> int:
    """The same for everything a payload sends."""
    total = MESSAGE_TOKENS + estimate(payload.system_prompt)
    total += sum(map(_of_message, payload.messages))
    if payload.context:
        total += 4 * MESSAGE_TOKENS + estimate(payload.context)
    for tool in payload.tools:
        total += TOOL_TOKENS + estimate(tool.name) + estimate(tool.description)
        total += estimate(json.dumps(tool.input_schema))
    if payload.output_schema is not None:
        total += 4 * MESSAGE_TOKENS + estimate(json.dumps(payload.output_schema))
    return total


def _of_message(message: Message) -> int:
    total = MESSAGE_TOKENS + estimate(message.content)
    if isinstance(message, AssistantMessage):
        for use in message.tool_uses:
            total += TOOL_TOKENS + estimate(use.name) + estimate(json.dumps(use.arguments))
    return total
