"""A model of a provider: payloads are sent over HTTP, again if need be, and no faster than is allowed."""

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
from weft.llm.providers.messages import (
    HeldOutput,
    held_output,
    messages_of,
    parameters_of,
    reply_of,
    settings_of,
)
from weft.llm.providers.prices import Prices
from weft.llm.providers.rate_limits import Timing
from weft.llm.providers.response_limits import ResponseCapture, capture_response
from weft.llm.providers.retries import Retries, longest_wait
from weft.llm.providers.streaming import StreamSink, streamed
from weft.llm.usage import attempt, report_attempts

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.settings import ModelSettings


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
        self._asked = connection.model(name, parameters)
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
        self._unheld: set[str] = set()
        """Schemas that the provider has refused to hold answers to."""

    def _known_features(self) -> Features:
        profile = self._asked.profile
        output = self._parameters.output
        if output is None:
            is_asked = profile.get("supports_json_object_output", False)
            output = (
                "held"
                if profile.get("supports_json_schema_output", False)
                else "asked"
                if is_asked
                else "none"
            )
        return Features(
            context_window=self._prices.context_window,
            max_output_tokens=self._parameters.max_tokens,
            output=output,
            has_tools=profile.get("supports_tools", True),
        )

    async def request(self, payload: HandlerPayload, on_text: OnText | None = None) -> ModelReply:
        """The answer; streamed when somebody listens. Raises ModelError.

        After an error that may pass the request is made again, unless text has been delivered already: then
        the error is raised with `partial_text`, and whoever asked decides.
        """
        delivery = StreamSink(on_text, self._most_tokens(payload))
        report_attempts()
        tokens = estimate_payload(payload) + (payload.metadata.max_tokens or EXPECTED_OUTPUT_TOKENS)

        async def once() -> ModelReply:
            wait = longest_wait(self._seconds)
            async with self._connection.limits.ticket(tokens, wait) as ticket:
                try:
                    with attempt():
                        reply = await self._answer(payload, delivery)
                except ModelError as error:
                    if not error.is_charged:
                        ticket.settle(0)
                    raise
                ticket.settle(reply.usage.tokens)
                return reply

        return await self._retries.run(
            once, may_retry=lambda: not delivery.pieces, on_refused=self._connection.limits.pause
        )

    async def count_tokens(self, payload: HandlerPayload) -> int:
        """An estimate that is rather too high."""
        return estimate_payload(payload)

    def price(self, usage: Usage) -> float | None:
        """By the settings, else by the price list."""
        return self._prices.price(usage)

    async def _answer(self, payload: HandlerPayload, delivery: StreamSink) -> ModelReply:
        """One answer; asked without the schema when the provider does not take that schema."""
        held = self._held(payload)
        try:
            return await self._sent(payload, held, delivery)
        except ModelError as error:
            if held is None or not _refuses_schema(error):
                raise
        reply = await self._sent(payload, None, delivery)
        self._unheld.add(_key(payload))  # not before: it may have been the schema of a tool
        return reply

    async def _sent(
        self, payload: HandlerPayload, held: HeldOutput | None, delivery: StreamSink
    ) -> ModelReply:
        is_held_model = self.features.output == "held"
        parameters = parameters_of(
            payload,
            held=held,
            is_json_mode=self._is_json_mode(payload),
            says_schema=is_held_model and (held is None or not held.is_enforced),
        )
        is_streamed = delivery.on_text is not None and not (held is not None and held.is_wrapped)
        failed: ModelError
        delivery.begin()
        with capture_response() as arrival:
            try:
                if is_streamed:
                    response = await self._streamed(payload, parameters, delivery, arrival)
                else:
                    response = await self._whole(payload, parameters, arrival)
                reply = self._priced(reply_of(response, self.id, held), payload)
                if _is_nothing(reply, payload):
                    raise self._failures.nothing()
            except Exception as error:
                if error is delivery.failure:
                    raise  # of who listens; no fault of the provider
                failed = self._failures.error(error, delivery.text, arrival)
            else:
                if not is_streamed:
                    delivery.hand_on(reply.text)
                return reply
        # Raised here and not above, so that no exception with a request in it hangs on it.
        raise detached(failed)

    async def _whole(
        self, payload: HandlerPayload, parameters: "ModelRequestParameters", arrival: ResponseCapture
    ) -> "ModelResponse":
        if self._connection.access.kind == "anthropic":
            # It refuses long answers that are not streamed, so pydantic-ai streams most requests anyhow.
            unheard = StreamSink(lambda piece: None, self._most_tokens(payload))
            return await self._streamed(payload, parameters, unheard, arrival)
        # Of the whole answer: a server that sends a blank now and then is in no hurry.
        async with asyncio.timeout(self._seconds):
            return await self._asked.request(messages_of(payload), self._settings(payload), parameters)

    async def _streamed(
        self,
        payload: HandlerPayload,
        parameters: "ModelRequestParameters",
        delivery: StreamSink,
        arrival: ResponseCapture,
    ) -> "ModelResponse":
        opening = self._asked.request_stream(messages_of(payload), self._settings(payload), parameters)
        return await streamed(opening, delivery, arrival, self._seconds)

    def _most_tokens(self, payload: HandlerPayload) -> int | None:
        return payload.metadata.max_tokens or self._parameters.max_tokens

    def _settings(self, payload: HandlerPayload) -> "ModelSettings":
        return settings_of(payload, self._parameters.temperature, self._parameters.max_tokens)

    def _held(self, payload: HandlerPayload) -> HeldOutput | None:
        if payload.output_schema is None or self.features.output != "held" or _key(payload) in self._unheld:
            return None
        kind = self._connection.access.kind
        if (
            kind == "google"
            and payload.tools
            and not self._asked.profile.get("google_supports_tool_combination")
        ):
            return None
        return held_output(payload.output_schema, kind)

    def _is_json_mode(self, payload: HandlerPayload) -> bool:
        """Whether to ask for JSON of any shape, which always is an object."""
        schema = payload.output_schema
        return self.features.output == "asked" and schema is not None and schema.get("type") == "object"

    def _priced(self, reply: ModelReply, payload: HandlerPayload) -> ModelReply:
        usage = reply.usage
        if not usage.tokens:
            usage = Usage(
                input_tokens=estimate_payload(payload), output_tokens=estimate(reply.text), is_estimated=True
            )
        return structs.replace(reply, usage=structs.replace(usage, cost=self.price(usage)))


def _is_nothing(reply: ModelReply, payload: HandlerPayload) -> bool:
    """Whether the model says nothing at all; after tools it may have nothing to add."""
    return (
        not reply.text
        and not reply.tool_uses
        and reply.finish_reason in ("stop", "other")
        and not isinstance(payload.messages[-1], ToolMessage)
    )


_SCHEMA_WORDS = ("schema", "response_format", "json_schema", "grammar")


def _refuses_schema(error: ModelError) -> bool:
    """Whether the provider refuses the request for the schema in it."""
    return (
        error.reason == "llm_error"
        and not error.is_transient
        and any(word in error.message.lower() for word in _SCHEMA_WORDS)
    )


def _key(payload: HandlerPayload) -> str:
    return json.dumps(payload.output_schema, sort_keys=True)
