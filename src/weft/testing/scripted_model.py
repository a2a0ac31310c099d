"""A model whose answers were decided beforehand: for tests of programs, handlers and tools."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from weft.evaluator.conversion import as_text
from weft.evaluator.tools import ToolUse
from weft.llm.context_window import count_text, estimated_tokens
from weft.llm.errors import ContextTooLong, ModelError
from weft.llm.payload import HandlerPayload, ModelReply, Usage, UserMessage
from weft.llm.protocol import Features, OnText
from weft.llm.tool_calls import sound_reply
from weft.testing.in_memory_effects import NotScripted, Scripted

Answer = Any
"""What a model is to say: a text; a ToolUse, or a tuple of them; a ModelReply; an exception to raise; any
other value as its JSON text."""

Answers = Sequence[Answer] | Mapping[str, Answer] | Callable[[HandlerPayload], Answer]

SCRIPTED = "test:scripted"

_PIECE = re.compile(r"\s*\S+\s*|\s+")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


class ScriptedModel:
    """Answers as told, word by word if somebody listens, and keeps what it was asked.

    Answers are a list (given in the order of asking), a mapping, or a function of the payload. A mapping is
    looked up by the name of the template, then by the first of its keys that the prompt contains, or else a
    message before it or the context; its values may be lists, given one after the other.
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
        self._answers = Scripted("answer", answers)
        self._latency_seconds = latency_seconds
        self._features = features or Features(context_window=128_000)
        self._id = id
        self._prices = (input_price, output_price)
        """US dollars per million tokens."""
        self._sleep = sleep
        self._uses = 0
        self._under_way = 0
        self.payloads: list[HandlerPayload] = []
        """Every payload in the order in which it was asked."""
        self.cancelled: list[HandlerPayload] = []
        """Those that were cancelled before they were answered."""
        self.most_under_way = 0
        """How many payloads were under way at the same time, at most."""

    @property
    def id(self) -> str:
        """The id that was given; `test:scripted`."""
        return self._id

    @property
    def features(self) -> Features:
        """What was given. Answers are not changed to fit: `output` says what the handler is to think."""
        return self._features

    @property
    def settings_digest(self) -> str:
        """Its answers are decided beforehand."""
        return ""

    @property
    def prompts(self) -> list[str]:
        """The last thing a user said in every payload, in order."""
        return [_prompts(payload)[0] for payload in self.payloads]

    async def request(self, payload: HandlerPayload, on_text: OnText | None = None) -> ModelReply:
        """The scripted answer, after the latency; raises ModelError when there is none."""
        self.payloads.append(payload)
        self._under_way += 1
        self.most_under_way = max(self.most_under_way, self._under_way)
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
            self._under_way -= 1

    async def count_tokens(self, payload: HandlerPayload) -> int:
        """One for every four characters and four for every message: not what a real one counts, but fixed."""
        return estimated_tokens(payload)

    def price(self, usage: Usage) -> float | None:
        """What the given prices say; nothing without."""
        input_price, output_price = self._prices
        return (usage.input_tokens * input_price + usage.output_tokens * output_price) / 1e6

    def _reply(self, payload: HandlerPayload) -> ModelReply | BaseException:
        input_tokens = estimated_tokens(payload)
        window = self._features.context_window
        if window is not None and input_tokens > window:
            raise ContextTooLong(
                "llm_error", f"{self._id}: a request of {input_tokens} tokens; the window has {window}"
            )
        answer = self._answer(payload)
        if isinstance(answer, BaseException):
            return answer
        reply = sound_reply(answer if isinstance(answer, ModelReply) else self._as_reply(answer, payload))
        return reply if reply.usage.tokens else self._counted(reply, input_tokens)

    def _answer(self, payload: HandlerPayload) -> Answer:
        texts = _prompts(payload)
        try:
            return self._answers.next(payload, payload.metadata.template, *texts, payload.context or "")
        except NotScripted as error:
            raise ModelError("llm_error", f"{self._id}: {error.error.message}") from None

    def _as_reply(self, answer: Answer, payload: HandlerPayload) -> ModelReply:
        uses = (answer,) if isinstance(answer, ToolUse) else answer
        if isinstance(uses, tuple) and uses and all(isinstance(use, ToolUse) for use in uses):
            given = tuple(self._use(use, payload) for use in uses)
            return ModelReply(text="", tool_uses=given, finish_reason="tools", model=self._id)
        return ModelReply(text=as_text(answer), model=self._id)

    def _use(self, use: ToolUse, payload: HandlerPayload) -> ToolUse:
        """The use with an id, and under the name that the payload has for the tool."""
        self._uses += 1
        known = {tool.name for tool in payload.tools}
        sent = _NOT_IN_NAMES.sub("_", use.name)
        name = sent if use.name not in known and sent in known else use.name
        return msgspec.structs.replace(use, id=use.id or f"use-{self._uses}", name=name)

    def _counted(self, reply: ModelReply, input_tokens: int) -> ModelReply:
        said = sum(count_text(msgspec.json.encode(use).decode()) for use in reply.tool_uses)
        usage = Usage(input_tokens=input_tokens, output_tokens=count_text(reply.text) + said)
        return msgspec.structs.replace(
            reply, usage=msgspec.structs.replace(usage, cost=self.price(usage)), response_model=self._id
        )


def tool_use(name: str, /, **arguments: Any) -> ToolUse:
    """A scripted tool call; the model gives it an id."""
    return ToolUse(id="", name=name, arguments=arguments)


async def stream(text: str, on_text: OnText) -> None:
    """Give the text word by word."""
    for piece in _PIECE.findall(text):
        on_text(piece)
        await asyncio.sleep(0)  # others have their turn, and a cancellation comes between two pieces


def _prompts(payload: HandlerPayload) -> list[str]:
    """What users said, the last first; what is asked now stands there even while tools are used."""
    said = [message.content for message in payload.messages if isinstance(message, UserMessage)]
    return said[::-1] or [""]
