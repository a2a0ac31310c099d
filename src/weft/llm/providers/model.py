"""The model of a remote provider: sends payloads over HTTP, with retries and rate limits."""

import asyncio
import json
from typing import TYPE_CHECKING

from msgspec import structs

from weft.config.sections import ModelParameters
from weft.llm.context_window import EXPECTED_OUTPUT_TOKENS, estimate, estimate_payload
from weft.llm.errors import ModelError
from weft.llm.events import OnEvent
from weft.llm.payload import HandlerPayload, ModelReply, ToolMessage, Usage, settings_digest
from weft.llm.protocol import Features, OnText
from weft.llm.providers.client import Connection
from weft.llm.providers.errors import Failures, detached
from weft.llm.providers.kinds import KINDS, HeldOutput, held_output
from weft.llm.providers.messages import (
    messages_of,
    parameters_of,
    parse_response,
    settings_of,
)
from weft.llm.providers.prices import Prices
from weft.llm.providers.rate_limits import Timing
from weft.llm.providers.response_limits import ResponseCapture, capture_response
from weft.llm.providers.retries import Retries, longest_wait
from weft.llm.providers.streaming import StreamSink, read_stream
from weft.llm.usage import attempt, report_attempts

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import ModelRequestParameters


class ProviderModel:
    """Implements `Model` over pydantic-ai's direct requests."""

    def __init__(
        self,
        connection: Connection,
        name: str,
        parameters: ModelParameters,
        timing: Timing,
        on_event: OnEvent | None = None,
    ) -> None:
        access = connection.access
        self._connection = connection
        self._parameters = parameters
        self._client_model = connection.model(name, parameters)
        self._seconds = access.settings.timeout_seconds
        self._prices = Prices(access, name, parameters)
        self.id = f"{access.name}:{name}"
        self.features = self._known_features()
        self.settings_digest = settings_digest(
            access.kind, access.base_url, parameters.temperature, parameters.max_tokens, self.features.output
        )
        self._failures = Failures(self.id, access, connection.redactor)
        self._retries = Retries(
            self.id,
            retries=access.settings.retries,
            most_seconds=access.settings.timeout_seconds,
            timing=timing,
            on_event=on_event,
        )
        self._rejected_schemas: set[str] = set()
        """Output schemas, as JSON, that the provider has rejected; later requests do not enforce them."""

    def _known_features(self) -> Features:
        profile = self._client_model.profile
        output = self._parameters.output
        if output is None:
            output = "asked" if profile.get("supports_json_object_output", False) else "none"
            output = "held" if profile.get("supports_json_schema_output", False) else output
        return Features(
            context_window=self._prices.context_window,
            max_output_tokens=self._parameters.max_tokens,
            output=output,
            has_tools=profile.get("supports_tools", True),
        )

    async def request(self, payload: HandlerPayload, on_text: OnText | None = None) -> ModelReply:
        """Send the payload and return the response, streamed if `on_text` is given. Raise ModelError.

        A request is retried after a transient error, unless text has been delivered already: then the error
        is raised with `partial_text`.
        """
        sink = StreamSink(on_text, self._max_tokens(payload))
        report_attempts()
        tokens = estimate_payload(payload) + (payload.metadata.max_tokens or EXPECTED_OUTPUT_TOKENS)

        async def once() -> ModelReply:
            wait = longest_wait(self._seconds)
            async with self._connection.limits.ticket(tokens, wait) as ticket:
                try:
                    with attempt():
                        reply = await self._request_with_schema(payload, sink)
                except ModelError as error:
                    if not error.is_charged:
                        ticket.settle(0)
                    raise
                ticket.settle(reply.usage.tokens)
                return reply

        return await self._retries.run(
            once, may_retry=lambda: not sink.pieces, on_refused=self._connection.limits.pause
        )

    async def count_tokens(self, payload: HandlerPayload) -> int:
        return estimate_payload(payload)

    def price(self, usage: Usage) -> float | None:
        return self._prices.price(usage)

    async def _request_with_schema(self, payload: HandlerPayload, sink: StreamSink) -> ModelReply:
        """Send a request; if the provider rejects the output schema, send it again without the schema."""
        held = self._held_output(payload)
        try:
            return await self._request(payload, held, sink)
        except ModelError as error:
            if held is None or not _is_schema_rejected(error):
                raise
        reply = await self._request(payload, None, sink)
        # Recorded only after this success: without it, the rejected schema may have been that of a tool.
        self._rejected_schemas.add(_schema_key(payload))
        return reply

    async def _request(
        self, payload: HandlerPayload, held: HeldOutput | None, sink: StreamSink
    ) -> ModelReply:
        is_held_model = self.features.output == "held"
        parameters = parameters_of(
            payload,
            held=held,
            is_json_mode=self._is_json_mode(payload),
            says_schema=is_held_model and (held is None or not held.is_enforced),
        )
        is_streamed = sink.on_text is not None and not (held is not None and held.is_wrapped)
        failed: ModelError
        sink.begin()
        with capture_response() as capture:
            try:
                response = await self._receive(payload, parameters, sink, capture, is_streamed=is_streamed)
                reply = self._with_usage(parse_response(response, self.id, held), payload)
                if _is_empty(reply, payload):
                    raise self._failures.empty_response()
            except Exception as error:
                if error is sink.failure:
                    raise  # raised by `on_text`, not by the provider
                failed = self._failures.error(error, sink.text, capture)
            else:
                if not is_streamed:
                    sink.forward(reply.text)
                return structs.replace(reply, first_token_seconds=sink.first_token_seconds)
        # Raised outside the `except` block: its context must not be the client's exception with the request.
        raise detached(failed)

    async def _receive(
        self,
        payload: HandlerPayload,
        parameters: "ModelRequestParameters",
        sink: StreamSink,
        capture: ResponseCapture,
        *,
        is_streamed: bool,
    ) -> "ModelResponse":
        given = self._parameters
        messages, settings = messages_of(payload), settings_of(payload, given.temperature, given.max_tokens)
        if not is_streamed and not KINDS[self._connection.access.kind].is_always_streamed:
            # Limits the whole response: the client's timeout restarts with every blank that a server sends.
            async with asyncio.timeout(self._seconds):
                return await self._client_model.request(messages, settings, parameters)
        reading_sink = sink if is_streamed else StreamSink(lambda piece: None, self._max_tokens(payload))
        opening = self._client_model.request_stream(messages, settings, parameters)
        response = await read_stream(opening, reading_sink, capture, self._seconds)
        sink.first_token_seconds = reading_sink.first_token_seconds
        return response

    def _max_tokens(self, payload: HandlerPayload) -> int | None:
        return payload.metadata.max_tokens or self._parameters.max_tokens

    def _held_output(self, payload: HandlerPayload) -> HeldOutput | None:
        """Return the output schema to send to the provider; None if the request must do without a schema."""
        if payload.output_schema is None or self.features.output != "held":
            return None
        if _schema_key(payload) in self._rejected_schemas:
            return None
        kind = self._connection.access.kind
        if payload.tools and not KINDS[kind].can_combine_tools(self._client_model.profile):
            return None
        return held_output(payload.output_schema, kind)

    def _is_json_mode(self, payload: HandlerPayload) -> bool:
        """Return True if the request uses the JSON mode, which takes no schema and returns an object."""
        schema = payload.output_schema
        return self.features.output == "asked" and schema is not None and schema.get("type") == "object"

    def _with_usage(self, reply: ModelReply, payload: HandlerPayload) -> ModelReply:
        """Return the reply with its cost, and with estimated usage if the provider reported no usage."""
        usage = reply.usage
        if not usage.tokens:
            usage = Usage(
                input_tokens=estimate_payload(payload), output_tokens=estimate(reply.text), is_estimated=True
            )
        return structs.replace(reply, usage=structs.replace(usage, cost=self.price(usage)))


def _is_empty(reply: ModelReply, payload: HandlerPayload) -> bool:
    """Return True if a finished response has no text and no tool call, and does not follow tool results."""
    return (
        not reply.text
        and not reply.tool_uses
        and reply.finish_reason in ("stop", "other")
        and not isinstance(payload.messages[-1], ToolMessage)
    )


_SCHEMA_WORDS = ("schema", "response_format", "json_schema", "grammar")


def _is_schema_rejected(error: ModelError) -> bool:
    """Return True if the provider seems to have rejected the request because of a schema in it."""
    return error.status in (400, 422) and any(word in error.message.lower() for word in _SCHEMA_WORDS)


def _schema_key(payload: HandlerPayload) -> str:
    return json.dumps(payload.output_schema, sort_keys=True)
