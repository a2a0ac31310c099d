"""What reaches a provider, and what comes back of it."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.model_payloads import KEY, KINDS, MODEL_OF, a_payload, served_models, served_settings
from tests.model_server import ModelServer, asks_for, drips, fails, gives_json, hangs, says
from weft.config.sections import ModelParameters
from weft.evaluator.tools import ToolDefinition, ToolUse
from weft.llm.errors import ModelError
from weft.llm.models import ConfiguredModels
from weft.llm.payload import AssistantMessage, PayloadMetadata, ToolMessage, UserMessage
from weft.llm.protocol import Model

LOOK = ToolDefinition(
    name="system_look",
    description="Looks.",
    input_schema={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
VERDICT = {
    "type": "object",
    "properties": {"success": {"type": "boolean"}, "feedback": {"type": "string"}},
    "required": ["success", "feedback"],
    "additionalProperties": False,
}


@pytest.fixture
async def models(model_server: ModelServer) -> AsyncIterator[ConfiguredModels]:
    found = served_models(model_server)
    yield found
    await found.close()


async def parameterized(server: ModelServer, name: str, **fields: Any) -> tuple[ConfiguredModels, Model]:
    settings = served_settings(server)
    parameters = {name: ModelParameters(**fields)}
    models = ConfiguredModels(msgspec.structs.replace(settings, settings=parameters), {"SERVER_KEY": KEY})
    return models, await models.find(name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
async def test_a_model_of_each_kind_answers(
    model_server: ModelServer, models: ConfiguredModels, kind: str, is_streamed: bool
) -> None:
    model_server.script(says("good ", "morning", input_tokens=20, cached_tokens=8, output_tokens=5))
    model = await models.find(MODEL_OF[kind])
    pieces: list[str] = []

    reply = await model.request(a_payload(), pieces.append if is_streamed else None)

    assert (reply.text, reply.finish_reason, reply.tool_uses) == ("good morning", "stop", ())
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (20, 5)
    assert reply.usage.cache_read_tokens == 8
    # Responses of Anthropic are always streamed.
    assert (reply.first_token_seconds is None) == (not is_streamed and kind != "anthropic")
    assert not reply.usage.is_estimated
    assert (reply.model, reply.response_model) == (MODEL_OF[kind], "served-model")
    assert pieces == (["good ", "morning"] if is_streamed else [])


async def test_a_stream_is_asked_for_only_when_somebody_listens(
    model_server: ModelServer, models: ConfiguredModels
) -> None:
    model = await models.find(MODEL_OF["openai"])

    await model.request(a_payload())
    await model.request(a_payload(), lambda text: None)

    assert [request.body.get("stream", False) for request in model_server.requests] == [False, True]


async def test_system_prompt_data_and_conversation_are_messages_of_their_own(
    model_server: ModelServer, models: ConfiguredModels
) -> None:
    model = await models.find(MODEL_OF["openai"])

    await model.request(
        a_payload(
            system_prompt="Be brief.",
            context="file a.py",
            messages=(UserMessage("one"), AssistantMessage("two"), UserMessage("three")),
            metadata=PayloadMetadata(model="any", temperature=0.5, max_tokens=99),
        )
    )

    body = model_server.requests[0].body
    assert body["model"] == "gpt-4o-mini"
    assert (body["temperature"], body["max_completion_tokens"]) == (0.5, 99)
    assert [(message["role"], message["content"]) for message in body["messages"]] == [
        ("system", "Be brief."),
        ("user", "file a.py"),
        ("user", "one"),
        ("assistant", "two"),
        ("user", "three"),
    ]


@pytest.mark.parametrize("kind", KINDS)
async def test_tools_are_offered_asked_for_and_answered(
    model_server: ModelServer, models: ConfiguredModels, kind: str
) -> None:
    model_server.script(asks_for("system_look", {"path": "a.py"}, tool_id="use-1"), says("done"))
    model = await models.find(MODEL_OF[kind])

    first = await model.request(a_payload(tools=(LOOK,)))
    (use,) = first.tool_uses
    conversation = (
        UserMessage("hi"),
        AssistantMessage(first.text, tool_uses=first.tool_uses),
        ToolMessage("no such file", tool_use_id=use.id, tool_name=use.name, is_error=True),
    )
    second = await model.request(a_payload(tools=(LOOK,), messages=conversation))

    assert (use.id, use.name, use.arguments) == ("use-1", "system_look", {"path": "a.py"})
    assert first.finish_reason == "tools"
    assert second.text == "done"
    offered, answered = (json.dumps(request.body) for request in model_server.requests)
    assert "system_look" in offered
    assert "Looks." in offered
    assert "no such file" in answered
    assert "use-1" in answered or kind == "google"


async def test_arguments_that_were_no_json_go_back_as_json(
    model_server: ModelServer, models: ConfiguredModels
) -> None:
    model = await models.find(MODEL_OF["openai"])
    use = ToolUse(id="use-1", name="system_look", arguments='{"path')

    await model.request(
        a_payload(
            messages=(
                UserMessage("hi"),
                AssistantMessage("", tool_uses=(use,)),
                ToolMessage("no JSON", tool_use_id="use-1", tool_name="system_look", is_error=True),
            )
        )
    )

    (call,) = model_server.requests[0].body["messages"][1]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"not_json": '{"path'}


async def test_what_a_listener_raises_is_its_own_error_and_closes_the_connection(
    model_server: ModelServer, models: ConfiguredModels
) -> None:
    class Broken(ValueError):
        pass

    def listen(text: str) -> None:
        raise Broken(text)

    model_server.script(drips("some"))
    model = await models.find(MODEL_OF["openai"])

    with pytest.raises(Broken):
        await asyncio.wait_for(model.request(a_payload(), listen), 60)

    await model_server.until(lambda: model_server.requests[0].is_abandoned)


@pytest.mark.parametrize("kind", KINDS)
async def test_cancelling_closes_the_connection(
    model_server: ModelServer, models: ConfiguredModels, kind: str
) -> None:
    model_server.script(hangs(), drips("some"))
    model = await models.find(MODEL_OF[kind])
    arrived = asyncio.Event()

    whole = asyncio.create_task(model.request(a_payload()))
    await model_server.until(lambda: len(model_server.requests) == 1)
    streamed = asyncio.create_task(model.request(a_payload(), lambda text: arrived.set()))
    await asyncio.wait_for(arrived.wait(), 60)
    whole.cancel()
    streamed.cancel()

    results = await asyncio.gather(whole, streamed, return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError, asyncio.CancelledError]
    await model_server.until(lambda: all(request.is_abandoned for request in model_server.requests))


async def test_the_output_is_held_to_its_schema(model_server: ModelServer, models: ConfiguredModels) -> None:
    model_server.script(gives_json({"success": True, "feedback": ""}))
    model = await models.find(MODEL_OF["openai"])

    reply = await model.request(a_payload(output_schema=VERDICT))

    asked = model_server.requests[0].body["response_format"]
    assert model.features.output == "held"
    assert asked["type"] == "json_schema"
    assert asked["json_schema"]["schema"] == VERDICT
    assert json.loads(reply.text) == {"success": True, "feedback": ""}


@pytest.mark.parametrize("kind", KINDS)
async def test_an_output_that_is_no_object_is_put_into_one_and_taken_out(
    model_server: ModelServer, models: ConfiguredModels, kind: str
) -> None:
    model_server.script(gives_json({"value": ["a", "b"]}))
    model = await models.find(MODEL_OF[kind])
    schema = {"type": "array", "items": {"type": "string"}}
    pieces: list[str] = []

    reply = await model.request(a_payload(output_schema=schema), pieces.append)

    assert model.features.output == "held"
    assert json.loads(reply.text) == ["a", "b"]
    assert pieces == [reply.text], "what is delivered is the answer, not what is around it"
    assert '"value"' in json.dumps(model_server.requests[0].body)


async def test_a_schema_that_the_provider_refuses_is_told_in_words_instead(
    model_server: ModelServer, models: ConfiguredModels
) -> None:
    refusal = "Invalid schema for response_format 'answer': 'pattern' is not permitted"
    model_server.script(fails(400, refusal), gives_json({"a": 1}), gives_json({"a": 2}))
    model = await models.find(MODEL_OF["openai"])
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}

    first = await model.request(a_payload(output_schema=schema))
    second = await model.request(a_payload(output_schema=schema))

    assert [first.text, second.text] == ['{"a": 1}', '{"a": 2}']
    assert ["response_format" in request.body for request in model_server.requests] == [True, False, False]
    assert json.dumps(schema) in model_server.requests[1].body["messages"][0]["content"]


async def test_a_schema_is_not_given_up_for_a_refusal_that_does_not_mean_it(
    model_server: ModelServer, models: ConfiguredModels
) -> None:
    refusal = fails(400, "Invalid schema for function 'system_look'")
    model_server.script(refusal, refusal, gives_json({"a": 1}))
    model = await models.find(MODEL_OF["openai"])
    payload = a_payload(output_schema={"type": "object", "properties": {"a": {"type": "integer"}}})

    with pytest.raises(ModelError):
        await model.request(payload)
    await model.request(payload)

    assert ["response_format" in request.body for request in model_server.requests] == [True, False, True]


async def test_a_request_that_is_refused_takes_nothing_of_the_minute(model_server: ModelServer) -> None:
    models = served_models(model_server, tokens_per_minute=5_000)
    model = await models.find(MODEL_OF["openai"])
    payload = a_payload(metadata=PayloadMetadata(model="any", max_tokens=4_000))
    model_server.script(fails(400, "no"), fails(400, "no"), says("yes"))

    for _ in range(2):
        with pytest.raises(ModelError):
            await model.request(payload)

    assert (await asyncio.wait_for(model.request(payload), 30)).text == "yes"
    await models.close()


@pytest.mark.parametrize(
    ("output", "expected"), [("asked", {"type": "json_object"}), ("none", None)], ids=["asked", "none"]
)
async def test_settings_say_how_a_model_is_held_to_json(
    model_server: ModelServer, output: Any, expected: object
) -> None:
    models, model = await parameterized(model_server, MODEL_OF["openai"], output=output)

    await model.request(a_payload(output_schema=VERDICT))
    await model.request(a_payload(output_schema={}))

    assert model.features.output == output
    with_schema, any_version = (request.body for request in model_server.requests)
    assert with_schema.get("response_format") == expected
    assert "response_format" not in any_version, "JSON mode gives objects only"
    await models.close()


async def test_json_of_any_shape_is_not_held(model_server: ModelServer, models: ConfiguredModels) -> None:
    model = await models.find(MODEL_OF["openai"])

    await model.request(a_payload(output_schema={}))

    assert "response_format" not in model_server.requests[0].body
    assert "Answer with one JSON value" in model_server.requests[0].body["messages"][0]["content"]


async def test_settings_of_a_model_are_those_of_requests_that_say_nothing(model_server: ModelServer) -> None:
    models, model = await parameterized(
        model_server,
        MODEL_OF["openai"],
        temperature=0.2,
        max_tokens=50,
        context_window=9_000,
        has_tools=False,
    )

    await model.request(a_payload())
    await model.request(a_payload(metadata=PayloadMetadata(model="any", temperature=0.9, max_tokens=7)))

    bodies = [request.body for request in model_server.requests]
    assert [(body["temperature"], body["max_completion_tokens"]) for body in bodies] == [(0.2, 50), (0.9, 7)]
    assert (model.features.context_window, model.features.has_tools) == (9_000, False)
    await models.close()


async def test_a_usage_that_is_not_told_is_estimated(model_server: ModelServer) -> None:
    model_server.script(says("one two three", input_tokens=0, output_tokens=0))
    models, model = await parameterized(
        model_server, MODEL_OF["openai"], input_price=1_000_000.0, output_price=0.0
    )
    payload = a_payload("hello there")

    reply = await model.request(payload)

    assert reply.usage.is_estimated
    assert reply.usage.input_tokens == await model.count_tokens(payload) > 0
    assert reply.usage.output_tokens >= 3
    assert reply.usage.cost == pytest.approx(reply.usage.input_tokens)
    await models.close()


async def test_an_answer_that_ends_at_its_limit_says_so(
    model_server: ModelServer, models: ConfiguredModels
) -> None:
    for kind in KINDS:
        model_server.script(says("half", finish="length"))
        model = await models.find(MODEL_OF[kind])

        assert (await model.request(a_payload())).finish_reason == "length"


async def test_requests_share_connections_and_close_ends_them(model_server: ModelServer) -> None:
    models = served_models(model_server)
    model = await models.find(MODEL_OF["openai"])

    for _ in range(5):
        await model.request(a_payload())
    assert model_server.connections == 1
    await models.close()

    await model_server.until(lambda: model_server.open_connections == 0)


@pytest.mark.parametrize("kind", KINDS)
async def test_variables_of_other_providers_and_proxies_do_not_reach_the_server(
    model_server: ModelServer, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = "http://127.0.0.1:9"
    for name, value in {
        "OPENAI_API_KEY": "stray-1",
        "OPENAI_ADMIN_KEY": "stray-2",
        "OPENAI_ORG_ID": "stray-3",
        "OPENAI_PROJECT_ID": "stray-4",
        "OPENAI_CUSTOM_HEADERS": "x-stray: stray-5",
        "OPENAI_BASE_URL": nowhere,
        "ANTHROPIC_API_KEY": "stray-6",
        "ANTHROPIC_AUTH_TOKEN": "stray-7",
        "ANTHROPIC_CUSTOM_HEADERS": "x-stray: stray-8",
        "ANTHROPIC_BASE_URL": nowhere,
        "GOOGLE_API_KEY": "stray-9",
        "GOOGLE_GEMINI_BASE_URL": nowhere,
        "GOOGLE_GENAI_USE_VERTEXAI": "true",
        "HTTP_PROXY": nowhere,
        "ALL_PROXY": nowhere,
    }.items():
        monkeypatch.setenv(name, value)
    models = served_models(model_server)
    model = await models.find(MODEL_OF[kind])

    await model.request(a_payload())

    headers = model_server.requests[0].headers
    assert KEY in "".join(headers.values())
    assert "stray" not in repr(headers)
    await models.close()


async def test_a_server_without_a_key_gets_none_of_ours(
    model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "stray")
    settings = served_settings(model_server, api_key_env=None)
    models = ConfiguredModels(settings, {"OPENAI_API_KEY": "stray"})

    await (await models.find(MODEL_OF["openai"])).request(a_payload())

    assert "stray" not in repr(model_server.requests[0].headers)
    await models.close()


async def test_no_repr_shows_the_key(models: ConfiguredModels) -> None:
    model: Any = await models.find(MODEL_OF["openai"])
    connection = model._connection

    shown = [models, model, connection, connection.access, connection.access.key, connection.redactor]
    assert not [one for one in shown if KEY in repr(one) or KEY in str(one)]
