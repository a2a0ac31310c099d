"""Embedded models over HTTP, in the OpenAI protocol, for other programs."""

import asyncio
import hmac
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from weft.errors import WeftError
from weft.llm.errors import ContextTooLong, ModelError
from weft.llm.local import embedding_wire
from weft.llm.local import openai_wire as wire
from weft.llm.local.catalogue import find_entry
from weft.llm.local.embeddings import EmbeddingModel
from weft.llm.local.errors import NoSuchEmbeddedModel
from weft.llm.local.models import EmbeddedModel
from weft.llm.local.store import AUTO, PROVIDER
from weft.llm.payload import HandlerPayload

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

MAX_BODY = 10_000_000

LOOPBACK = ("127.0.0.1", "localhost", "::1")

T = TypeVar("T")
M = TypeVar("M")

_Handler = Callable[["Request"], Awaitable["Response"]]


def model_app(
    chat: EmbeddedModel | None,
    embedding: EmbeddingModel | None = None,
    *,
    key: str | None = None,
    hosts: tuple[str, ...] = LOOPBACK,
) -> "Starlette":
    """The application. With a key every request must bring it; without, its host must be one of ours."""
    # Imported here: an extra.
    from starlette.applications import Starlette
    from starlette.routing import Route

    endpoint = _Endpoint(chat, embedding)
    guard = _Guard(key, hosts)
    return Starlette(
        routes=[
            Route("/v1/models", guard(endpoint.models), methods=["GET"]),
            Route("/v1/chat/completions", guard(endpoint.chat), methods=["POST"]),
            Route("/v1/embeddings", guard(endpoint.embeddings), methods=["POST"]),
        ]
    )


class _Refused(Exception):
    def __init__(self, status: int, message: str, kind: str = "invalid_request_error") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind


class _Guard:
    """Lets only those in who may; turns errors into the protocol's."""

    def __init__(self, key: str | None, hosts: tuple[str, ...]) -> None:
        self._key = key
        self._hosts = hosts

    def __call__(self, handler: _Handler) -> _Handler:
        async def guarded(request: "Request") -> "Response":
            try:
                self._check(request)
                return await handler(request)
            except _Refused as refused:
                return _error(refused.status, refused.message, refused.kind)
            except WeftError as error:
                return _error(*_status_of(error))

        return guarded

    def _check(self, request: "Request") -> None:
        if self._key is not None:
            given = request.headers.get("authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(given.encode(), self._key.encode()):
                raise _Refused(401, "the API key is missing or wrong", "authentication_error")
        elif request.url.hostname not in self._hosts:
            # A page in a browser that has a name of its own point to this machine.
            raise _Refused(403, "this host name is not served")


class _Endpoint:
    def __init__(self, chat: EmbeddedModel | None, embedding: EmbeddingModel | None) -> None:
        self._chat = chat
        self._embedding = embedding

    async def models(self, request: "Request") -> "Response":
        served = [model for model in (self._chat, self._embedding) if model is not None]
        listed = [
            {"id": _name(model), "object": "model", "created": 0, "owned_by": "weft"} for model in served
        ]
        return _json({"object": "list", "data": listed})

    async def embeddings(self, request: "Request") -> "Response":
        body = await _body(request)
        model = _served(self._embedding, "makes embeddings")
        asked = embedding_wire.read_request(body, model.dimensions)
        _check_name(asked.model, model)
        made = await _while_connected(request, model.embed(asked.texts))
        return _json(embedding_wire.answer(made, asked, model=_name(model)))

    async def chat(self, request: "Request") -> "Response":
        asked = wire.read_request(await _body(request))
        model = _served(self._chat, "writes text")
        _check_name(asked.model, model)
        payload, must_use_tool = wire.payload_of(asked)
        if not asked.stream:
            work = model.request(payload, must_use_tool=must_use_tool)
            reply = await _while_connected(request, work)
            return _json(wire.completion(reply, id=_new_id(), created=_now(), model=_name(model)))
        from starlette.responses import StreamingResponse

        stream = _Stream(model, payload, must_use_tool=must_use_tool)
        await _while_connected(request, stream.first())
        include_usage = bool(asked.stream_options and asked.stream_options.include_usage)
        events = stream.events(include_usage=include_usage)
        return stream.stopped_after(StreamingResponse(events, media_type="text/event-stream"))


def _served(model: M | None, what: str) -> M:
    if model is None:
        raise _Refused(404, f"no model that {what} is served here")
    return model


def _name(model: EmbeddedModel | EmbeddingModel) -> str:
    """The model as clients name it."""
    return model.id.removeprefix(f"{PROVIDER}:")


def _check_name(name: str, model: EmbeddedModel | EmbeddingModel) -> None:
    """Refuse who means another model; who names none means this. An alias of it is one of its names."""
    meant = name.removeprefix(f"{PROVIDER}:")
    with suppress(NoSuchEmbeddedModel):
        meant = find_entry(meant).name
    if meant not in ("", AUTO, _name(model)):
        raise _Refused(404, f"model '{name[:80]}' does not answer this; '{_name(model)}' does")


class _Stream:
    """An answer as it is written."""

    def __init__(self, model: EmbeddedModel, payload: HandlerPayload, *, must_use_tool: bool) -> None:
        self._model = model
        self._pieces: asyncio.Queue[str | None] = asyncio.Queue()
        work = model.request(payload, self._pieces.put_nowait, must_use_tool=must_use_tool)
        self._working = asyncio.create_task(work)
        self._working.add_done_callback(lambda _: self._pieces.put_nowait(None))
        self._head = {
            "id": _new_id(),
            "object": "chat.completion.chunk",
            "created": _now(),
            "model": _name(model),
        }
        self._first: str | None = None

    async def first(self) -> None:
        """Wait until the model has begun: until then an error has a status of its own."""
        try:
            self._first = await self._pieces.get()
        except asyncio.CancelledError:
            self._working.cancel()
            raise
        if self._first is None:
            self._working.result()

    def stopped_after(self, response: "Response") -> "Response":
        """The response, after which the model stops: also when the client went before its first event."""
        send = response.__call__

        async def sent(*connection: Any) -> None:
            try:
                await send(*connection)
            finally:
                self._working.cancel()

        return cast("Response", sent)

    async def events(self, *, include_usage: bool) -> AsyncIterator[bytes]:
        """The server-sent events. Whoever stops reading stops the model."""
        try:
            yield self._chunk({"role": "assistant", "content": ""})
            piece = self._first
            while piece is not None:
                yield self._chunk({"content": piece})
                piece = await self._pieces.get()
            reply = await self._working
            if reply.tool_uses:
                calls = enumerate(wire.tool_calls(reply.tool_uses))
                yield self._chunk({"tool_calls": [{"index": index, **call} for index, call in calls]})
            yield self._chunk({}, wire.finish_reason(reply))
            if include_usage:
                yield _event({**self._head, "choices": [], "usage": wire.usage(reply.usage)})
            yield b"data: [DONE]\n\n"
        except ModelError as error:
            yield _event({"error": _error_body(*_status_of(error)[1:])})
        finally:
            self._working.cancel()

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        return _event({**self._head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})


async def _body(request: "Request") -> bytes:
    # A web page may send other types to any address without asking; this one makes its browser ask first.
    if not request.headers.get("content-type", "").startswith("application/json"):
        raise _Refused(415, "the content type must be application/json")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY:
            raise _Refused(413, f"the request is larger than {MAX_BODY} bytes")
    return bytes(body)


async def _while_connected(request: "Request", work: Coroutine[Any, Any, T]) -> T:
    """What the work gives; when the client goes away the work is cancelled."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.create_task(work), asyncio.create_task(gone())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise _Refused(499, "the client has gone")
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()


def _status_of(error: WeftError) -> tuple[int, str, str]:
    match error:
        case ContextTooLong():
            return 400, error.message, "context_length_exceeded"
        case ModelError(reason="configuration_error") | wire.InvalidChatRequest():
            return 400, error.message, "invalid_request_error"
    return 500, error.message, "server_error"


def _error(status: int, message: str, kind: str) -> "Response":
    return _json({"error": _error_body(message, kind)}, status)


def _error_body(message: str, kind: str) -> dict[str, Any]:
    return {"message": message, "type": kind, "param": None, "code": kind}


def _json(value: Any, status: int = 200) -> "Response":
    from starlette.responses import Response

    return Response(msgspec.json.encode(value), status, media_type="application/json")


def _event(value: Any) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def _new_id() -> str:
    return f"chatcmpl-{secrets.token_hex(12)}"


def _now() -> int:
    return int(time.time())
