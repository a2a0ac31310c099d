"""A model with scripted responses, for tests of programs, handlers and tools."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from weft.evaluator.conversion import as_text
from weft.evaluator.tools import ToolUse
from weft.llm.context_window import count_text, estimated_tokens
from weft.llm.errors import ContextTooLong, ModelError
from weft.llm.payload import HandlerPayload, ModelReply, Usage, UserMessage
from weft.llm.protocol import Features, Model, OnText, StaticModels
from weft.llm.tool_calls import sound_reply
from weft.testing.in_memory_effects import NotScripted, Scripted

Answer = Any
"""A scripted response: a text; a ToolUse, or a tuple of them; a ModelReply; an exception to raise; any other
value as its JSON text."""

Answers = Sequence[Answer] | Mapping[str, Answer] | Callable[[HandlerPayload], Answer]

SCRIPTED = "test:scripted"

_PIECE = re.compile(r"\s*\S+\s*|\s+")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


class ScriptedModel:
    """Returns scripted responses, streamed word by word if `on_text` is given, and records every payload.

    Answers are a list (used in order), a mapping, or a function of the payload. A mapping is looked up by the
    name of the template, then by the first of its keys that occurs in the prompt, else in an earlier user
    message or the context. Its values may be lists, which are used in order.
    """

    def __init__(
        self,
        answers: Answers = (),
        *,
        latency_seconds: float = 0.0,
        features: Features | None = None,
        id: str = SCRIPTED,  # noqa: A002 - the name it has in the protocol
        input_price: float = 0.0,
        output_price: float = 0.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._responses = Scripted("response", answers)
        self._latency_seconds = latency_seconds
        self.features = features or Features(context_window=128_000)
        """Responses are not changed to fit them."""
        self.id = id
        self.settings_digest = ""
        self._prices = (input_price, output_price)
        """US dollars per million tokens."""
        self._sleep = sleep
        self._tool_uses = 0
        self._running = 0
        self.payloads: list[HandlerPayload] = []
        """Every payload, in the order of the requests."""
        self.cancelled: list[HandlerPayload] = []
        """The payloads of requests that were cancelled before the response."""
        self.most_concurrent = 0
        """The largest number of requests that were running at the same time."""

    @property
    def prompts(self) -> list[str]:
        """Return the last user message of every payload, in order."""
        return [_prompts(payload)[0] for payload in self.payloads]

    async def request(self, payload: HandlerPayload, on_text: OnText | None = None) -> ModelReply:
        """Return the scripted response after the latency. Raise ModelError if no response is scripted."""
        self.payloads.append(payload)
        self._running += 1
        self.most_concurrent = max(self.most_concurrent, self._running)
        try:
            reply = self._reply(payload)
            if self._latency_seconds:
                await self._sleep(self._latency_seconds)
            if isinstance(reply, BaseException):
                raise reply
            if on_text is not None:
                await stream(reply.text, on_text)
            return reply
        except asyncio.CancelledError:
            self.cancelled.append(payload)
            raise
        finally:
            self._running -= 1

    async def count_tokens(self, payload: HandlerPayload) -> int:
        """Return a fixed estimate: one token per four characters, and four per message."""
        return estimated_tokens(payload)

    def price(self, usage: Usage) -> float | None:
        input_price, output_price = self._prices
        return (usage.input_tokens * input_price + usage.output_tokens * output_price) / 1e6

    def _reply(self, payload: HandlerPayload) -> ModelReply | BaseException:
        input_tokens = estimated_tokens(payload)
        window = self.features.context_window
        if window is not None and input_tokens > window:
            raise ContextTooLong(
                "llm_error",
                f"{self.id}: the request has {input_tokens} tokens, but the context window has {window}",
            )
        response = self._response(payload)
        if isinstance(response, BaseException):
            return response
        reply = sound_reply(
            response if isinstance(response, ModelReply) else self._as_reply(response, payload)
        )
        return reply if reply.usage.tokens else self._with_usage(reply, input_tokens)

    def _response(self, payload: HandlerPayload) -> Answer:
        texts = _prompts(payload)
        try:
            return self._responses.next(payload, payload.metadata.template, *texts, payload.context or "")
        except NotScripted as error:
            raise ModelError("llm_error", f"{self.id}: {error.error.message}") from None

    def _as_reply(self, response: Answer, payload: HandlerPayload) -> ModelReply:
        uses = (response,) if isinstance(response, ToolUse) else response
        if isinstance(uses, tuple) and uses and all(isinstance(use, ToolUse) for use in uses):
            given = tuple(self._complete_use(use, payload) for use in uses)
            return ModelReply(text="", tool_uses=given, finish_reason="tools", model=self.id)
        return ModelReply(text=as_text(response), model=self.id)

    def _complete_use(self, use: ToolUse, payload: HandlerPayload) -> ToolUse:
        """Return the tool use with an id, and with the tool's name as the payload spells it."""
        self._tool_uses += 1
        known = {tool.name for tool in payload.tools}
        sent = _NOT_IN_NAMES.sub("_", use.name)
        name = sent if use.name not in known and sent in known else use.name
        return msgspec.structs.replace(use, id=use.id or f"use-{self._tool_uses}", name=name)

    def _with_usage(self, reply: ModelReply, input_tokens: int) -> ModelReply:
        tool_tokens = sum(count_text(msgspec.json.encode(use).decode()) for use in reply.tool_uses)
        usage = Usage(input_tokens=input_tokens, output_tokens=count_text(reply.text) + tool_tokens)
        return msgspec.structs.replace(
            reply, usage=msgspec.structs.replace(usage, cost=self.price(usage)), response_model=self.id
        )


def tool_use(name: str, /, **arguments: Any) -> ToolUse:
    """Return a scripted tool call; the model adds its id."""
    return ToolUse(id="", name=name, arguments=arguments)


async def stream(text: str, on_text: OnText) -> None:
    """Pass the text to `on_text` word by word."""
    for piece in _PIECE.findall(text):
        on_text(piece)
        await asyncio.sleep(0)  # so that other tasks run, and a cancellation takes effect between two words


def _prompts(payload: HandlerPayload) -> list[str]:
    """Return the user messages, the last first; it is the current prompt even while tools are used."""
    texts = [message.content for message in payload.messages if isinstance(message, UserMessage)]
    return texts[::-1] or [""]


def models(answers: Model | Mapping[str, Model] | Answers) -> StaticModels:
    """Return models for `LocalEffects(models=...)`: one model for every name, or models by name.

    Anything else becomes the responses of a ScriptedModel that serves every name.
    """
    if isinstance(answers, Mapping):
        named = {name: one for name, one in answers.items() if _is_model(one)}
        return StaticModels(named if named and len(named) == len(answers) else ScriptedModel(answers))
    if _is_model(answers):
        return StaticModels(cast(Model, answers))
    return StaticModels(ScriptedModel(cast(Answers, answers)))


def _is_model(value: Any) -> bool:
    return hasattr(value, "request") and hasattr(value, "count_tokens")
