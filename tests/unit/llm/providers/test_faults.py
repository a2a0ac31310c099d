"""Whatever a provider does wrong: the right reason, nothing stuck, no key told."""

import asyncio
import base64
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.model_payloads import KEY, KINDS, MODEL_OF, a_payload, served_models
from tests.model_server import ModelServer, Reaction, asks_for, cuts, drips, fails, hangs, says, sends
from weft.llm.errors import ContextTooLong, ModelError
from weft.llm.payload import ModelReply
from weft.llm.protocol import OnText

TOO_LONG = {
    "openai": fails(400, "This is too long", code="context_length_exceeded"),
    "anthropic": fails(400, "prompt is too long: 9 tokens > 8 maximum", code="invalid_request_error"),
    "google": fails(
        400,
        "The input token count (9) exceeds the maximum number of tokens allowed (8).",
        code="INVALID_ARGUMENT",
    ),
}

WHOLE_AND_STREAMED = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
EACH_KIND = pytest.mark.parametrize("kind", KINDS)


async def asked(
    server: ModelServer, kind: str, *, is_streamed: bool, on_text: OnText | None = None, **fields: Any
) -> ModelReply:
    """Return the response of the server, within a time limit."""
    models = served_models(server, **fields)
    try:
        model = await models.find(MODEL_OF[kind])
        listener = on_text or (lambda text: None)
        return await asyncio.wait_for(model.request(a_payload(), listener if is_streamed else None), 60)
    finally:
        await models.close()


async def failure(
    server: ModelServer, kind: str, reaction: Reaction, *, is_streamed: bool, **fields: Any
) -> ModelError:
    server.always(reaction)
    with pytest.raises(ModelError) as caught:
        await asked(server, kind, is_streamed=is_streamed, **fields)
    assert_says_no_key(caught.value)
    return caught.value


def assert_says_no_key(error: ModelError) -> None:
    secrets = (KEY, quote(KEY, safe=""), base64.b64encode(KEY.encode()).decode()[:-4])
    told = [repr(error), str(error), repr(error.__dict__), repr(error.__context__), repr(error.__cause__)]
    assert not [secret for secret in secrets for text in told if secret in text]
    assert len(error.message) <= 300


FAULTS: list[tuple[str, Callable[[str], Reaction], str, bool]] = [
    ("rate limit", lambda kind: fails(429, "slow down"), "llm_error", True),
    ("server error", lambda kind: fails(500, "oops"), "llm_error", True),
    (
        "bad gateway page",
        lambda kind: sends(b"<html>", status=502, content_type="text/html"),
        "llm_error",
        True,
    ),
    ("unavailable", lambda kind: fails(503, "later"), "llm_error", True),
    ("overloaded", lambda kind: fails(529, "overloaded"), "llm_error", True),
    ("key refused", lambda kind: fails(401, f"wrong key {KEY}"), "configuration_error", False),
    ("forbidden", lambda kind: fails(403, "not yours"), "configuration_error", False),
    (
        "no such model",
        lambda kind: fails(404, "no model", code="model_not_found"),
        "configuration_error",
        False,
    ),
    ("bad request", lambda kind: fails(400, "no such thing"), "llm_error", False),
    ("context too long", TOO_LONG.__getitem__, "llm_error", False),
    ("page", lambda kind: sends(b"<html>Hello</html>", content_type="text/html"), "protocol_error", True),
    ("page called JSON", lambda kind: sends(b"<html>Hello</html>"), "protocol_error", True),
    ("half a JSON", lambda kind: sends(b'{"id": "1", "choi'), "protocol_error", True),
    ("nothing", lambda kind: sends(b""), "protocol_error", True),
    ("other JSON", lambda kind: sends(b'{"hello": [1]}'), "protocol_error", True),
    ("cut", lambda kind: cuts("a"), "connection_error", True),
]


@EACH_KIND
@WHOLE_AND_STREAMED
@pytest.mark.parametrize(
    ("reaction_of", "reason", "is_transient"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS]
)
async def test_a_fault_has_its_reason(
    model_server: ModelServer,
    kind: str,
    is_streamed: bool,
    reaction_of: Callable[[str], Reaction],
    reason: str,
    is_transient: bool,
) -> None:
    error = await failure(model_server, kind, reaction_of(kind), is_streamed=is_streamed)

    assert (error.reason, error.is_transient) == (reason, is_transient), error.message
    assert error.message.startswith(MODEL_OF[kind])
    assert len(model_server.requests) == 1


@EACH_KIND
@WHOLE_AND_STREAMED
async def test_a_request_that_does_not_fit_the_window_is_an_error_of_its_own(
    model_server: ModelServer, kind: str, is_streamed: bool
) -> None:
    assert isinstance(
        await failure(model_server, kind, TOO_LONG[kind], is_streamed=is_streamed), ContextTooLong
    )


@EACH_KIND
@WHOLE_AND_STREAMED
async def test_a_server_that_never_answers_is_given_up(
    model_server: ModelServer, kind: str, is_streamed: bool
) -> None:
    error = await failure(model_server, kind, hangs(), is_streamed=is_streamed, timeout_seconds=1.5)

    assert (error.reason, error.is_transient) == ("connection_error", True)
    assert "no response for 1.5 seconds" in error.message
    await model_server.until(lambda: model_server.requests[0].is_abandoned)


@EACH_KIND
async def test_a_stream_that_stops_is_given_up_with_what_came(model_server: ModelServer, kind: str) -> None:
    error = await failure(model_server, kind, drips("some ", "text"), is_streamed=True, timeout_seconds=1.5)

    assert (error.reason, error.partial_text) == ("connection_error", "some text")
    assert "the response stalled for 1.5 seconds" in error.message


@EACH_KIND
async def test_a_stream_that_is_cut_keeps_what_came(model_server: ModelServer, kind: str) -> None:
    error = await failure(model_server, kind, cuts("some ", "text"), is_streamed=True, retries=4)

    assert (error.reason, error.partial_text) == ("connection_error", "some text")
    assert len(model_server.requests) == 1, "what has been delivered is not delivered twice"


async def test_a_server_that_is_not_there_is_a_connection_error(model_server: ModelServer) -> None:
    models = served_models(model_server)
    model = await models.find(MODEL_OF["openai"])
    model_server.stop()
    model_server.wait_until_stopped()

    with pytest.raises(ModelError) as caught:
        await asyncio.wait_for(model.request(a_payload()), 60)

    assert caught.value.reason == "connection_error"
    assert "cannot be reached at http://127.0.0.1" in caught.value.message
    await models.close()


@EACH_KIND
async def test_the_wait_that_a_provider_asks_for_is_passed_on(model_server: ModelServer, kind: str) -> None:
    in_seconds = await failure(
        model_server, kind, fails(429, headers={"retry-after": "1"}), is_streamed=False
    )
    long_ago = await failure(
        model_server,
        kind,
        fails(503, headers={"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}),
        is_streamed=False,
    )
    far_ahead = await failure(
        model_server,
        kind,
        fails(429, headers={"retry-after": "Wed, 21 Oct 2099 07:28:00 GMT"}),
        is_streamed=False,
    )

    assert in_seconds.retry_after_seconds == 1.0
    assert long_ago.retry_after_seconds in (None, 0.0)
    assert far_ahead.retry_after_seconds is not None
    assert far_ahead.retry_after_seconds > 1_000_000_000


@WHOLE_AND_STREAMED
async def test_a_tool_that_nobody_offered_and_arguments_that_are_no_json_are_handed_on(
    model_server: ModelServer, is_streamed: bool
) -> None:
    model_server.script(asks_for("never_offered", '{"path": "a'))

    reply = await asked(model_server, "openai", is_streamed=is_streamed)

    assert [(use.name, use.arguments) for use in reply.tool_uses] == [("never_offered", '{"path": "a')]
    assert reply.finish_reason == "tools"


async def test_an_account_that_is_used_up_is_not_asked_again(model_server: ModelServer) -> None:
    used_up = fails(429, "You exceeded your current quota", code="insufficient_quota")

    error = await failure(model_server, "openai", used_up, is_streamed=False, retries=4)

    assert (error.reason, error.is_transient) == ("llm_error", False)
    assert "the quota of the account is used up (status 429)" in error.message
    assert len(model_server.requests) == 1


async def test_a_long_complaint_is_cut_after_the_key_has_been_taken_out(model_server: ModelServer) -> None:
    # The key would stand across the cut.
    complaint = "x" * 230 + KEY + "y" * 300

    error = await failure(model_server, "openai", fails(400, complaint), is_streamed=False)

    assert "[secret SERVER_KEY]" in error.message
    assert KEY[:8] not in error.message


async def test_what_a_server_says_in_a_stream_that_has_begun_is_its_error(model_server: ModelServer) -> None:
    event = b'data: {"error": {"message": "the engine died", "type": "server_error", "code": 500}}\n\n'

    error = await failure(
        model_server, "openai", sends(event, content_type="text/event-stream"), is_streamed=True
    )

    assert (error.reason, error.is_transient) == ("llm_error", True)
    assert "the engine died" in error.message


async def test_nothing_of_a_request_is_written_to_the_log_with_its_key(
    model_server: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    for kind in KINDS:
        model_server.script(says("good"), fails(401, f"bad {KEY}"))
        await asked(model_server, kind, is_streamed=False)
        with pytest.raises(ModelError):
            await asked(model_server, kind, is_streamed=False)

    assert caplog.records
    assert KEY not in caplog.text
