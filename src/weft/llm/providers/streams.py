"""Reading a stream: piece by piece, no longer than an answer can be, and not for ever.

Imports pydantic-ai: import it when a model is asked.
"""

import asyncio
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

from weft.llm.providers.arrival import Arrival
from weft.llm.providers.delivery import Delivery


async def streamed(
    opening: AbstractAsyncContextManager[StreamedResponse],
    delivery: Delivery,
    arrival: Arrival,
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


def _has_something(event: ModelResponseStreamEvent, delivery: Delivery) -> bool:
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


def _cut(response: ModelResponse, delivery: Delivery) -> ModelResponse:
    """What has been delivered, as an answer that was too long. Half of a call of a tool is none.

    What the provider says of usage comes at the end, so what it has said so far is not it.
    """
    parts = [TextPart(content=delivery.text)] if delivery.text else []
    return replace(response, parts=parts, finish_reason="length", usage=RequestUsage())
