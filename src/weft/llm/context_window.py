"""The context window: how many tokens a request takes, and how much data fits beside it."""

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
from weft.secrets.registry import redact

SHARE = 0.75
"""How much of what is left memory may fill: the answer, or what the task says next, needs the rest."""

SHARE_WITH_TOOLS = 0.5
"""The same for a task with tools: their results come into the window too."""


class ContextWindow:
    """The room of one task."""

    def __init__(self, session: Callable[[DataContext], Session], model: Model) -> None:
        self._session = session
        self._model = model
        self._empty = 0
        self._limit = 0
        self.tokens: int | None = None
        """How many tokens memory may fill; None: the model's window is not known."""

    async def measure(self, *, has_tools: bool) -> None:
        """Find out how much is left beside the task itself."""
        self._empty = await self._tokens("")
        bare = self._session(DataContext())
        self._limit = bare.context_limit
        if self._limit:
            left = max(0, self._limit - await bare.tokens())
            self.tokens = int(left * (SHARE_WITH_TOOLS if has_tools else SHARE))

    async def count(self, text: str) -> int:
        """The tokens of a text."""
        return max(0, await self._tokens(text) - self._empty)

    async def fits(self, context: DataContext) -> bool:
        """Whether the task with this context fits the window."""
        return not self._limit or await self._session(context).tokens() <= self._limit

    async def _tokens(self, text: str) -> int:
        metadata = PayloadMetadata(self._model.id)
        message = UserMessage(f"x{text}")  # some templates refuse a message that is empty
        return await self._model.count_tokens(
            HandlerPayload(system_prompt="", messages=(message,), metadata=metadata)
        )


async def context_room(
    step: Step, call: ModelCall, model: Model, tools: Tools | None, settings: HandlerSettings, clock: Clock
) -> ContextWindow:
    """The room of a task that a handler with these parts is about to run."""
    definitions = (await find_tools(call.tools, tools, redact=redact, spawn=step.spawn)).definitions

    def session(context: DataContext) -> Session:
        return Session(
            step.key,
            call,
            model,
            settings,
            clock=clock,
            on_event=_ignored,
            tools=definitions,
            context=context,
        )

    room = ContextWindow(session, model)
    await room.measure(has_tools=bool(call.tools))
    return room


def _ignored(_: ModelEvent) -> None: ...


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
