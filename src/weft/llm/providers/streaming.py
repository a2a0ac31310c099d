"""Reads a streamed response, with limits on its size and time.

Imports pydantic-ai, which is slow, so import this module lazily.
"""

import asyncio
import time
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

from weft.limits import clean_text
from weft.llm.protocol import OnText
from weft.llm.providers.response_limits import ResponseCapture

MOST_CHARACTERS_PER_TOKEN = 16
"""Upper bound of the average token length. A longer response than it allows for `max_tokens` is truncated."""

MOST_CHARACTERS = 1_000_000
"""Limit of a response without `max_tokens`: twice the longest response of known models, 128,000 tokens. It is
needed because the time to join the pieces of an endless response grows with the square of its length."""


class StreamSink:
    """Forwards the pieces of a streamed text to a listener, collects them and limits their length."""

    def __init__(self, on_text: OnText | None, max_tokens: int | None = None) -> None:
        self.on_text = on_text
        self.pieces: list[str] = []
        self.failure: Exception | None = None
        """The exception of the listener, if it raised one."""
        self._limit = MOST_CHARACTERS if max_tokens is None else max_tokens * MOST_CHARACTERS_PER_TOKEN
        self.begin()

    def begin(self) -> None:
        """Reset length limit and clock before a request or its retry."""
        self._characters_left = self._limit
        self._began_at = time.monotonic()
        self.first_token_seconds: float | None = None
        """Seconds until the first piece of a stream, thoughts and tool calls included."""

    @property
    def text(self) -> str | None:
        return "".join(self.pieces) or None

    @property
    def is_full(self) -> bool:
        """Return True if the length limit is reached."""
        return self._characters_left <= 0

    def deliver(self, piece: str) -> None:
        """Forward a piece of a stream, truncated at the length limit."""
        self.count(piece)
        if self._characters_left < 0:
            piece = piece[: self._characters_left]
        self.forward(piece)

    def forward(self, piece: str) -> None:
        """Forward a text without the length limit."""
        if self.on_text is not None and piece:
            piece = clean_text(piece)
            self.pieces.append(piece)
            try:
                self.on_text(piece)
            except Exception as error:
                self.failure = error
                raise

    def count(self, piece: str) -> None:
        """Count a piece, such as reasoning or tool arguments, in the length limit without forwarding it."""
        self._characters_left -= len(piece)
        if piece and self.first_token_seconds is None:
            self.first_token_seconds = round(time.monotonic() - self._began_at, 3)


async def read_stream(
    opening: AbstractAsyncContextManager[StreamedResponse],
    sink: StreamSink,
    capture: ResponseCapture,
    seconds: float,
) -> ModelResponse:
    """Enter `opening`, read the stream and return the response, truncated if it exceeds a length limit.

    Raise TimeoutError if no content arrives for `seconds`. Comments and blanks, which servers send to keep a
    connection open, are not content.
    """
    try:
        async with asyncio.timeout(seconds) as timer, opening as stream:
            async for event in stream:
                if _deliver_event(event, sink):
                    timer.reschedule(asyncio.get_running_loop().time() + seconds)
                if sink.is_full:
                    await stream.cancel()
                    await capture.close()
                    return _truncated(stream.get(), sink)
            return stream.get()
    except Exception as error:
        if not (capture.is_too_large and sink.pieces) or error is sink.failure:
            raise
        return _truncated(ModelResponse(parts=[]), sink)


def _deliver_event(event: ModelResponseStreamEvent, sink: StreamSink) -> bool:
    """Deliver the text of an event; return True if the event has content of any kind."""
    match event:
        case PartStartEvent(part=TextPart(content=text)):
            sink.deliver(text)
            return bool(text)
        case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            sink.deliver(text)
            return bool(text)
        case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=thought)):
            sink.count(thought or "")
            return bool(thought)
        case PartDeltaEvent(delta=ToolCallPartDelta(args_delta=arguments)):
            sink.count(arguments if isinstance(arguments, str) else "")
            return bool(arguments)
        case PartStartEvent():
            return True
    return False


def _truncated(response: ModelResponse, sink: StreamSink) -> ModelResponse:
    """Return the delivered text as a truncated response, without incomplete tool calls.

    The usage is dropped, because providers send the final usage only at the end.
    """
    parts = [TextPart(content=sink.text)] if sink.text else []
    return replace(response, parts=parts, finish_reason="length", usage=RequestUsage())
