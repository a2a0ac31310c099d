"""Token counts of requests, and how much data from memory fits into a model's context window."""

import json
import re
from collections.abc import Callable

import msgspec

from weft.clock import Clock
from weft.config.sections import HandlerSettings
from weft.evaluator.effects import ModelCall, Step
from weft.evaluator.results import DataContext
from weft.evaluator.tools import Tools
from weft.llm.events import ModelEvent
from weft.llm.payload import AssistantMessage, HandlerPayload, Message, PayloadMetadata, UserMessage
from weft.llm.protocol import Model
from weft.llm.session import Session
from weft.llm.tool_calls import find_tools

SHARE = 0.75
"""Share of the free context window for data from memory; the response and later turns need the remainder."""

SHARE_WITH_TOOLS = 0.5
"""`SHARE` for a task with tools: smaller, because tool results need tokens too."""


class ContextWindow:
    """The part of a model's context window that one task leaves for data from memory."""

    def __init__(self, session: Callable[[DataContext], Session], model: Model) -> None:
        self._session = session
        self._model = model
        self._base_tokens = 0
        self._limit = 0
        self.tokens: int | None = None
        """Number of tokens that memory may fill; None if the model's context window is unknown."""

    async def measure(self, *, has_tools: bool) -> None:
        """Count the tokens of the task without data, and set `tokens`."""
        self._base_tokens = await self._message_tokens("")
        bare = self._session(DataContext())
        self._limit = bare.context_limit
        if self._limit:
            left = max(0, self._limit - await bare.tokens())
            self.tokens = int(left * (SHARE_WITH_TOOLS if has_tools else SHARE))

    async def count(self, text: str) -> int:
        """Count the tokens that a text adds to a message."""
        return max(0, await self._message_tokens(text) - self._base_tokens)

    async def fits(self, context: DataContext) -> bool:
        """Return True if the task with this data context fits the context window, or it is unknown."""
        return not self._limit or await self._session(context).tokens() <= self._limit

    async def _message_tokens(self, text: str) -> int:
        metadata = PayloadMetadata(self._model.id)
        message = UserMessage(f"x{text}")  # some chat templates reject an empty message
        return await self._model.count_tokens(
            HandlerPayload(system_prompt="", messages=(message,), metadata=metadata)
        )


async def measure_context_window(
    step: Step, call: ModelCall, model: Model, tools: Tools | None, settings: HandlerSettings, clock: Clock
) -> ContextWindow:
    """Return the measured context window of a task that a handler with the same arguments will run."""
    definitions = (await find_tools(call.tools, tools, spawn=step.spawn)).definitions

    def session(context: DataContext) -> Session:
        return Session(
            step.key,
            call,
            model,
            settings,
            clock=clock,
            on_event=_ignore,
            tools=definitions,
            context=context,
        )

    window = ContextWindow(session, model)
    await window.measure(has_tools=bool(call.tools))
    return window


def _ignore(_: ModelEvent) -> None: ...


PER_MESSAGE = 4
"""Tokens per message besides its text: about what providers count for roles and separators."""


def count_text(text: str) -> int:
    """Estimate the tokens of a text at four characters per token."""
    return (len(text) + 3) // 4


def estimated_tokens(payload: HandlerPayload) -> int:
    """Estimate the tokens of a payload at four characters per token, with its tools and output schema."""
    schema = payload.output_schema
    return (
        count_text(payload.system_prompt)
        + count_text(payload.context or "")
        + sum(PER_MESSAGE + count_text(_full_text(message)) for message in payload.messages)
        + sum(count_text(msgspec.json.encode(tool).decode()) for tool in payload.tools)
        + (0 if schema is None else count_text(msgspec.json.encode(schema).decode()))
    )


def _full_text(message: Message) -> str:
    uses = message.tool_uses if isinstance(message, AssistantMessage) else ()
    return message.content + "".join(msgspec.json.encode(use).decode() for use in uses)


_TOKEN_LIKE = re.compile(r"[A-Z]?[a-z]{1,4}|[A-Z]{1,2}|[0-9]|[^\sA-Za-z0-9]|[\n\r]+|\t+|[^\S\n\r\t]{2,}")
_LONG_RUN = re.compile(r"[A-Za-z0-9+/]{24,}")
"""A long run of letters and digits. If it has a digit, it is taken to be a hash or base64, which tokenizers
split into tokens of one or two letters."""
_DIGIT = re.compile("[0-9]")

MESSAGE_TOKENS = 8
"""Upper estimate of the tokens of roles and separators per message."""

TOOL_TOKENS = 16
"""The same for a tool definition or a tool call."""

EXPECTED_OUTPUT_TOKENS = 1_000
"""Assumed length of a response to a request without `max_tokens`."""


def estimate(text: str) -> int:
    """Return an upper estimate of the tokens of a text, valid for common tokenizers on ordinary text.

    Count word pieces of at most four letters, each digit, each punctuation character and each run of blanks;
    add more for hashes and base64. A character outside ASCII counts all its bytes, the worst case of a
    byte-level tokenizer.
    """
    count = len(_TOKEN_LIKE.findall(text)) + sum(
        len(run) // 4 for run in _LONG_RUN.findall(text) if _DIGIT.search(run)
    )
    return count if text.isascii() else count + len(text.encode("utf-8", "surrogatepass")) - len(text)


def estimate_payload(payload: HandlerPayload) -> int:
    """Return an upper estimate of the tokens of a payload, with its tools and output schema."""
    total = MESSAGE_TOKENS + estimate(payload.system_prompt)
    total += sum(map(_estimate_message, payload.messages))
    if payload.context:
        total += 4 * MESSAGE_TOKENS + estimate(payload.context)
    for tool in payload.tools:
        total += TOOL_TOKENS + estimate(tool.name) + estimate(tool.description)
        total += estimate(json.dumps(tool.input_schema))
    if payload.output_schema is not None:
        total += 4 * MESSAGE_TOKENS + estimate(json.dumps(payload.output_schema))
    return total


def _estimate_message(message: Message) -> int:
    total = MESSAGE_TOKENS + estimate(message.content)
    if isinstance(message, AssistantMessage):
        for use in message.tool_uses:
            total += TOOL_TOKENS + estimate(use.name) + estimate(json.dumps(use.arguments))
    return total
