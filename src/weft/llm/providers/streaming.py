"""Read a streamed response, with limits on its size and time.

Imports pydantic-ai: import it when a model is asked.
"""

import asyncio
import re
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from pydantic_ai.messages import (
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPartDelta,
    ToolCallPartDelta,
)
from pydantic_ai.models import StreamedResponse
from pydantic_ai.usage import RequestUsage

from weft.llm.protocol import OnText
from weft.llm.providers.response_limits import ResponseCapture

MOST_CHARACTERS_PER_TOKEN = 16
"""No answer has longer tokens on average. A stream that has, for the tokens it may have, does not end."""

MOST_CHARACTERS = 1_000_000
"""Of an answer that was asked for without a bound: twice as many as the longest of known models have, 128,000
tokens. Joining the pieces of an endless one takes time that grows with the square of its length."""

_BAD = re.compile("[\x00\ud800-\udfff]")


def clean_text(text: str) -> str:
    """The text without what files, databases and terminals refuse: NULs and halves of surrogate pairs."""
    return _BAD.sub("\ufffd", text)


class StreamSink:
    """Hands pieces on, and remembers them."""

    def __init__(self, on_text: OnText | None, max_tokens: int | None = None) -> None:
        self.on_text = on_text
        self.pieces: list[str] = []
        self.failure: Exception | None = None
        """What the listener raised."""
        self._most = MOST_CHARACTERS if max_tokens is None else max_tokens * MOST_CHARACTERS_PER_TOKEN
        self._room = self._most

    def begin(self) -> None:
        """Begin to count anew: the request is made, perhaps again."""
        self._room = self._most

    @property
    def text(self) -> str | None:
        return "".join(self.pieces) or None

    @property
    def is_full(self) -> bool:
        """Whether more has come than the answer can have."""
        return self._room <= 0

    def deliver(self, piece: str) -> None:
        """Hand a piece of a stream on, as far as the answer can have it."""
        self.count(piece)
        if self._room < 0:
            piece = piece[: self._room]
        self.hand_on(piece)

    def hand_on(self, piece: str) -> None:
        """Hand a text on as it is."""
        if self.on_text is not None and piece:
            piece = clean_text(piece)
            self.pieces.append(piece)
            try:
                self.on_text(piece)
            except Exception as error:
                self.failure = error
                raise

    def count(self, piece: str) -> None:
        """Count what is part of the answer, and not handed on: thoughts, arguments of tools."""
        self._room -= len(piece)


async def streamed(
    opening: AbstractAsyncContextManager[StreamedResponse],
    delivery: StreamSink,
    arrival: ResponseCapture,
    seconds: float,
) -> ModelResponse:
    """The whole answer of a stream, or what there is of one that does not end.

    Raises TimeoutError when nothing that belongs to the answer comes for so many seconds. Comments and
    blanks, which servers send to keep a connection open, do not belong to it.
    """
    try:
        async with asyncio.timeout(seconds) as timer, opening as stream:
            async for event in stream:
                if _has_something(event, delivery):
                    timer.reschedule(asyncio.get_running_loop().time() + seconds)
                if delivery.is_full:
                    await stream.cancel()
                    await arrival.close()
                    return _cut(stream.get(), delivery)
            return stream.get()
    except Exception as error:
        if not (arrival.is_too_large and delivery.pieces) or error is delivery.failure:
            raise
        return _cut(ModelResponse(parts=[]), delivery)


def _has_something(event: ModelResponseStreamEvent, delivery: StreamSink) -> bool:
    """Whether the event is a piece of the answer; a piece of its text is delivered."""
    match event:
        case PartStartEvent(part=TextPart(content=text)):
            delivery.deliver(text)
            return bool(text)
        case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            delivery.deliver(text)
            return bool(text)
        case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=thought)):
            delivery.count(thought or "")
            return bool(thought)
        case PartDeltaEvent(delta=ToolCallPartDelta(args_delta=arguments)):
            delivery.count(arguments if isinstance(arguments, str) else "")
            return bool(arguments)
        case PartStartEvent():
            return True
    return False


def _cut(response: ModelResponse, delivery: StreamSink) -> ModelResponse:
    """What has been delivered, as an answer that was too long. Half of a call of a tool is none.

    What the provider says of usage comes at the end, so what it has said so far is not it.
    """
    parts = [TextPart(content=delivery.text)] if delivery.text else []
    return replace(response, parts=parts, finish_reason="length", usage=RequestUsage())
