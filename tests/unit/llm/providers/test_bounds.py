"""An answer has an end: in bytes, in tokens and in time; and what is wrong with it can be seen."""

import asyncio
import gzip
import json
import subprocess
import sys

import pytest

from tests.model_payloads import KEY, MODEL_OF, a_payload, served_models
from tests.model_server import Exchange, ModelServer, Reaction, says, sends
from tests.model_wire import Answer, events, is_stream, whole
from tests.unit.llm.providers.test_faults import EACH_KIND, WHOLE_AND_STREAMED, asked, failure
from weft.evaluator.tools import ToolUse
from weft.llm.payload import AssistantMessage, PayloadMetadata, ToolMessage, UserMessage
from weft.llm.providers.streaming import MOST_CHARACTERS

STREAM = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}
JSON = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}


def floods(piece: bytes, headers: dict[str, str] = JSON) -> Reaction:
    """Send the same bytes for ever."""

    async def react(exchange: Exchange) -> None:
        await exchange.head(200, headers)
        while True:
            await exchange.chunk(piece)

    return react


def flows(piece: str) -> Reaction:
    """Send a stream of the same text for ever."""

    async def react(exchange: Exchange) -> None:
        await exchange.head(200, STREAM)
        begun = list(events(exchange.dialect, Answer(pieces=(piece,))))
        text = next(event for event in begun if piece.encode() in event)
        for event in begun[: begun.index(text)]:
            await exchange.chunk(event)
        while True:
            await exchange.chunk(text)

    return react


def trickles(piece: bytes, headers: dict[str, str], *first: bytes) -> Reaction:
    """Something now and then that is no part of an answer."""

    async def react(exchange: Exchange) -> None:
        await exchange.head(200, headers)
        for event in first:
            await exchange.chunk(event)
        while True:
            await exchange.chunk(piece)
            await asyncio.sleep(0.1)

    return react


@EACH_KIND
@WHOLE_AND_STREAMED
async def test_an_answer_that_does_not_end_is_refused_before_it_fills_the_memory(
    model_server: ModelServer, kind: str, is_streamed: bool
) -> None:
    error = await failure(model_server, kind, floods(b"x" * 1024**2), is_streamed=is_streamed, retries=4)

    assert (error.reason, error.is_transient) == ("protocol_error", False)
    assert "longer than 32 MiB" in error.message or "no end of an event" in error.message
    assert len(model_server.requests) == 1


@pytest.mark.parametrize("kind", ["openai", "anthropic"])  # Google's client reads each line by itself
async def test_an_event_of_lines_without_end_is_refused_before_its_client_has_copied_it_for_minutes(
    model_server: ModelServer, kind: str
) -> None:
    error = await failure(model_server, kind, floods(b"x\n" * 2048, STREAM), is_streamed=True)

    assert (error.reason, error.is_transient) == ("protocol_error", False)
    assert "no end of an event in its last" in error.message


@EACH_KIND
async def test_a_stream_of_many_events_may_be_long(model_server: ModelServer, kind: str) -> None:
    pieces = ("z" * 50_000,) * 18
    model_server.always(says(*pieces))

    assert (await asked(model_server, kind, is_streamed=True)).text == "".join(pieces)


async def test_a_packed_answer_is_bounded_by_what_it_holds(model_server: ModelServer) -> None:
    packed = gzip.compress(b" " * (40 * 1024**2))

    async def react(exchange: Exchange) -> None:
        await exchange.whole(200, packed, {"Content-Type": "application/json", "Content-Encoding": "gzip"})

    error = await failure(model_server, "openai", react, is_streamed=False)

    assert "longer than 32 MiB" in error.message


@EACH_KIND
@WHOLE_AND_STREAMED
async def test_a_packed_answer_is_unpacked(model_server: ModelServer, kind: str, is_streamed: bool) -> None:
    async def react(exchange: Exchange) -> None:
        answer = Answer(pieces=("packed",))
        body, content_type = json.dumps(whole(exchange.dialect, answer)).encode(), "application/json"
        if is_stream(exchange.request.path, exchange.request.body):
            body, content_type = b"".join(events(exchange.dialect, answer)), "text/event-stream"
        packed = gzip.compress(body)
        await exchange.whole(200, packed, {"Content-Type": content_type, "Content-Encoding": "gzip"})

    model_server.always(react)

    assert (await asked(model_server, kind, is_streamed=is_streamed)).text == "packed"


@EACH_KIND
async def test_a_stream_longer_than_its_tokens_is_closed_and_kept_as_cut(
    model_server: ModelServer, kind: str
) -> None:
    model_server.always(flows("z" * 1_000))
    pieces: list[str] = []
    models = served_models(model_server)
    model = await models.find(MODEL_OF[kind])

    reply = await asyncio.wait_for(
        model.request(a_payload(metadata=PayloadMetadata(model="any", max_tokens=100)), pieces.append), 60
    )

    assert (reply.finish_reason, reply.text, "".join(pieces)) == ("length", "z" * 1_600, "z" * 1_600)
    assert reply.usage.is_estimated
    assert reply.usage.output_tokens >= 100
    await model_server.until(lambda: model_server.requests[0].is_abandoned)
    await models.close()


async def test_a_stream_without_a_bound_of_tokens_is_closed_and_kept_as_cut(
    model_server: ModelServer,
) -> None:
    model_server.always(flows("z" * 300_000))

    reply = await asked(model_server, "openai", is_streamed=True)

    assert reply.finish_reason == "length"
    assert len(reply.text) == MOST_CHARACTERS


@EACH_KIND
@WHOLE_AND_STREAMED
async def test_blanks_and_comments_do_not_keep_a_request_alive(
    model_server: ModelServer, kind: str, is_streamed: bool
) -> None:
    def reaction_of(exchange: Exchange) -> Reaction:
        if is_stream(exchange.request.path, exchange.request.body):
            return trickles(b"\n" if kind == "google" else b": still here\n\n", STREAM)
        return trickles(b" ", JSON)

    async def reaction(exchange: Exchange) -> None:
        await reaction_of(exchange)(exchange)

    error = await failure(model_server, kind, reaction, is_streamed=is_streamed, timeout_seconds=1.5)

    assert (error.reason, error.is_transient) == ("connection_error", True)
    assert "no response for 1.5 seconds" in error.message


@EACH_KIND
@WHOLE_AND_STREAMED
async def test_what_is_no_answer_is_shown_as_far_as_one_can_see_what_it_is(
    model_server: ModelServer, kind: str, is_streamed: bool
) -> None:
    page = f"<html>\x1b[31m\n<title>Login {KEY}</title>{'x' * 300}".encode()

    error = await failure(model_server, kind, sends(page, content_type="text/html"), is_streamed=is_streamed)

    assert "status 200, text/html" in error.message
    assert "<html>?[31m <title>Login [secret SERVER_KEY]</title>xxx" in error.message


@EACH_KIND
@WHOLE_AND_STREAMED
async def test_a_redirect_is_named_and_not_followed(
    model_server: ModelServer, kind: str, is_streamed: bool
) -> None:
    async def react(exchange: Exchange) -> None:
        await exchange.whole(307, b"", {"Location": "http://portal.example/login?token=abc"})

    error = await failure(model_server, kind, react, is_streamed=is_streamed, retries=4)

    assert error.reason == "protocol_error"
    assert "status 307: it redirects to http://portal.example/login, which is not followed" in error.message
    assert len(model_server.requests) == 1


@EACH_KIND
@WHOLE_AND_STREAMED
async def test_an_answer_that_says_nothing_is_asked_for_once_more(
    model_server: ModelServer, kind: str, is_streamed: bool
) -> None:
    model_server.script(says(""), says("now"))
    again = await asked(model_server, kind, is_streamed=is_streamed, retries=4)
    error = await failure(model_server, kind, says(""), is_streamed=is_streamed, retries=4)

    assert again.text == "now"
    assert error.reason == "protocol_error"
    assert len(model_server.requests) == 4


async def test_a_model_may_have_nothing_to_add_after_a_tool(model_server: ModelServer) -> None:
    use = ToolUse(id="1", name="look", arguments={})
    messages = (UserMessage("hi"), AssistantMessage("", tool_uses=(use,)), ToolMessage("done", "1", "look"))
    model_server.script(says(""))
    models = served_models(model_server)
    model = await models.find(MODEL_OF["openai"])

    assert (await model.request(a_payload(messages=messages))).text == ""
    await models.close()


BROKEN = "a \ud800 b \0 c"


@EACH_KIND
@WHOLE_AND_STREAMED
async def test_half_pairs_and_nuls_are_replaced(
    model_server: ModelServer, kind: str, is_streamed: bool
) -> None:
    heard: list[str] = []
    model_server.script(says(BROKEN))

    reply = await asked(model_server, kind, is_streamed=is_streamed, on_text=heard.append)

    assert reply.text == "a \ufffd b \ufffd c"
    assert not is_streamed or "".join(heard) == reply.text


QUIET = """
import asyncio, logging, sys
from tests.model_payloads import a_payload
from weft.llm.models import ConfiguredModels
from weft.config.sections import ModelsSettings, ProviderSettings

async def ask():
    here = ProviderSettings(base_url=sys.argv[1])
    models = ConfiguredModels(ModelsSettings(providers={"here": here}), {})
    reply = await (await models.find("here:m")).request(a_payload())
    assert reply.usage.is_estimated
    for name in ("openai", "anthropic", "google_genai.models", "httpx2", "httpcore2.http11"):
        logging.getLogger(name).warning("said by %s", name)
    await models.close()

asyncio.run(ask())
"""


def test_libraries_write_nothing_to_standard_error(model_server: ModelServer) -> None:
    model_server.script(says("hello", input_tokens=-5_000, output_tokens=-5_000))

    done = subprocess.run(
        [sys.executable, "-c", QUIET, model_server.base_url], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
