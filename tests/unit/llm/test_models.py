"""The models of settings and environment, found by name."""

import asyncio
from typing import Any

import pytest
from msgspec import structs

from tests.model_payloads import KEY, MODEL_OF, a_payload, served_models, served_settings
from tests.model_server import ModelServer
from weft.config.sections import ModelsSettings
from weft.llm.errors import ModelError
from weft.llm.models import ConfiguredModels, verdicts
from weft.llm.protocol import Model


class Embedded:
    """Models of its own that are asked for by name."""

    def __init__(self) -> None:
        self.asked: list[str | None] = []
        self.is_closed = False

    async def find(self, model: str | None, provider: str | None = None) -> Model:
        self.asked.append(model)
        return _Named(model)  # type: ignore[return-value]

    async def close(self) -> None:
        self.is_closed = True


class _Named:
    def __init__(self, model: str | None) -> None:
        self.id = model


async def test_without_a_choice_the_embedded_model_answers_and_that_is_said_once() -> None:
    said: list[str] = []
    embedded = Embedded()
    models = ConfiguredModels(ModelsSettings(), {}, embedded, on_fallback=said.append)

    await models.find(None)
    await models.find(None)
    await models.find("local:tiny")

    assert embedded.asked == ["local:auto", "local:auto", "local:tiny"]
    (line,) = said
    assert line.startswith("no provider is configured: using the embedded model local:auto (set WEFT_MODEL")
    await models.close()
    assert embedded.is_closed


async def test_a_key_without_a_chosen_model_is_mentioned() -> None:
    said: list[str] = []
    models = ConfiguredModels(
        ModelsSettings(), {"ANTHROPIC_API_KEY": "secret"}, Embedded(), on_fallback=said.append
    )

    await models.find(None)

    assert said[0].startswith("ANTHROPIC_API_KEY is set, but no model is chosen")
    assert "secret" not in said[0]


async def test_nothing_is_said_when_the_embedded_model_was_chosen() -> None:
    said: list[str] = []
    embedded = Embedded()
    models = ConfiguredModels(
        ModelsSettings(), {"WEFT_MODEL": "local:auto"}, embedded, on_fallback=said.append
    )

    await models.find(None)

    assert (said, embedded.asked) == ([], ["local:auto"])


async def test_the_default_is_that_of_the_settings_else_of_the_variable(model_server: ModelServer) -> None:
    settings = served_settings(model_server)
    environment = {"SERVER_KEY": KEY, "WEFT_MODEL": "here:two"}
    chosen = ConfiguredModels(structs.replace(settings, default="here:one"), environment)
    left_open = ConfiguredModels(settings, environment)

    assert (await chosen.find(None)).id == "here:one"
    assert (await left_open.find(None)).id == "here:two"
    await chosen.close()
    await left_open.close()


async def test_a_model_is_made_once_however_many_ask_for_it(model_server: ModelServer) -> None:
    models = served_models(model_server)

    found = await asyncio.gather(*(models.find(MODEL_OF["openai"]) for _ in range(20)))

    assert len({id(model) for model in found}) == 1
    await models.close()


async def test_models_of_one_provider_share_its_limits(model_server: ModelServer) -> None:
    models = served_models(model_server)
    one: Any = await models.find("here:one")
    two: Any = await models.find("here:two")
    other: Any = await models.find("there:one")

    assert one._connection is two._connection
    assert one._connection is not other._connection
    await models.close()


async def test_an_alias_and_a_provider_in_place_of_another_are_followed(model_server: ModelServer) -> None:
    settings = structs.replace(served_settings(model_server), aliases={"fast": "openai:gpt"})
    models = ConfiguredModels(settings, {"SERVER_KEY": KEY})

    model = await models.find("fast", provider="here")
    await model.request(a_payload())

    assert model.id == "here:gpt"
    assert model_server.requests[0].body["model"] == "gpt"
    await models.close()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("openai:gpt", "no key for 'openai': set the environment variable OPENAI_API_KEY"),
        ("opnai:gpt", "did you mean 'openai'?"),
        ("local:auto", "embedded models are not available here"),
    ],
)
async def test_what_cannot_be_asked_is_a_configuration_error(name: str, message: str) -> None:
    models = ConfiguredModels(ModelsSettings(), {})

    with pytest.raises(ModelError) as caught:
        await models.find(name)

    assert caught.value.reason == "configuration_error"
    assert message in caught.value.message


@pytest.mark.parametrize("key", ["käy-ünïcode-123", "with\nnewline-12345", "nul\0-12345678"])
async def test_a_key_that_no_header_takes_is_told_by_its_variable(
    key: str, model_server: ModelServer
) -> None:
    models = ConfiguredModels(served_settings(model_server), {"SERVER_KEY": key})

    with pytest.raises(ModelError) as caught:
        await models.find(MODEL_OF["openai"])

    assert caught.value.reason == "configuration_error"
    assert caught.value.message.startswith("the key in SERVER_KEY cannot be sent")
    assert key[:5] not in caught.value.message
    assert not model_server.requests


async def test_closed_models_are_not_found_any_more(model_server: ModelServer) -> None:
    models = served_models(model_server)
    await models.close()
    await models.close()

    with pytest.raises(ModelError, match="closed"):
        await models.find(MODEL_OF["openai"])


async def test_verdicts_are_those_of_the_settings(model_server: ModelServer) -> None:
    found = {one.name: one.is_usable for one in verdicts(served_settings(model_server), {"SERVER_KEY": KEY})}

    assert found["here"]
    assert not found["openai"]
    assert model_server.requests == []
    assert model_server.others == []
