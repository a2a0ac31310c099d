"""weft's models in aider's words."""

import pytest

from weft.config.sections import ModelParameters, ModelsSettings, ProviderSettings
from weft.integrations.aider.models import AiderModels
from weft.integrations.aider.request import AiderModel
from weft.llm.errors import ModelError
from weft.llm.local.models import EmbeddedModel

SETTINGS = ModelsSettings(
    aliases={"fast": "openai:gpt-4o-mini"},
    providers={
        "own": ProviderSettings(base_url="http://127.0.0.1:8080/v1"),
        "claude": ProviderSettings(
            kind="anthropic", base_url="http://127.0.0.1:8081", api_key_env="CLAUDE_KEY"
        ),
    },
    settings={"own:big": ModelParameters(input_price=2.0, output_price=6.0, context_window=32_000)},
)
KEYS = {
    "OPENAI_API_KEY": "key-of-openai",
    "ANTHROPIC_API_KEY": "key-of-anthropic",
    "GEMINI_API_KEY": "key-of-google",
    "CLAUDE_KEY": "key-of-claude",
}


async def opened(
    name: str | None, provider: str | None = None, settings: ModelsSettings = SETTINGS
) -> AiderModel:
    async with AiderModels(settings, KEYS).opened(name, provider) as model:
        return model


@pytest.mark.parametrize(
    ("name", "called", "variables"),
    [
        ("openai:gpt-4o", "openai/gpt-4o", {"OPENAI_API_KEY": "key-of-openai"}),
        ("fast", "openai/gpt-4o-mini", {"OPENAI_API_KEY": "key-of-openai"}),
        (
            "anthropic:claude-sonnet-4-5",
            "anthropic/claude-sonnet-4-5",
            {"ANTHROPIC_API_KEY": "key-of-anthropic"},
        ),
        ("google:gemini-2.5-pro", "gemini/gemini-2.5-pro", {"GEMINI_API_KEY": "key-of-google"}),
        (
            "own:big",
            "openai/big",
            {"OPENAI_API_BASE": "http://127.0.0.1:8080/v1", "OPENAI_API_KEY": "none"},
        ),
        (
            "claude:x",
            "anthropic/x",
            {"ANTHROPIC_API_BASE": "http://127.0.0.1:8081", "ANTHROPIC_API_KEY": "key-of-claude"},
        ),
    ],
)
async def test_a_model_has_its_name_its_address_and_its_key(
    name: str, called: str, variables: dict[str, str]
) -> None:
    model = await opened(name)

    assert (model.name, model.environment()) == (called, variables)
    assert all(key not in repr(model) for key in KEYS.values())


async def test_what_the_settings_say_of_a_model_is_passed_on() -> None:
    model = await opened("own:big")

    assert model.metadata["max_input_tokens"] == 32_000
    assert model.metadata["input_cost_per_token"] == pytest.approx(2e-6)
    assert model.metadata["output_cost_per_token"] == pytest.approx(6e-6)


async def test_the_price_list_is_passed_on() -> None:
    metadata = (await opened("openai:gpt-4o")).metadata

    assert metadata["input_cost_per_token"] > 0
    assert metadata["max_input_tokens"] == 128_000


async def test_the_default_and_another_provider_are_heeded() -> None:
    settings = ModelsSettings(default="own:big", providers=SETTINGS.providers)

    assert (await opened(None, settings=settings)).id == "own:big"
    assert (await opened("openai:big", "own")).id == "own:big"


async def test_a_model_without_a_key_is_refused() -> None:
    with pytest.raises(ModelError, match="OPENAI_API_KEY"):
        async with AiderModels(SETTINGS, {}).opened("openai:gpt-4o"):
            pass


async def test_the_runtime_of_an_embedded_model_listens_as_long_as_it_is_used(smollm2: EmbeddedModel) -> None:
    import httpx2

    question = {"model": "smollm2", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
    async with AiderModels(SETTINGS, {}).opened("local:smollm2") as model, httpx2.AsyncClient() as client:
        environment = model.environment()
        url = f"{environment['OPENAI_API_BASE']}/chat/completions"
        key = {"Authorization": f"Bearer {environment['OPENAI_API_KEY']}"}
        refused = await client.post(url, json=question)
        answered = await client.post(url, json=question, headers=key)

    assert (refused.status_code, answered.status_code) == (401, 200)
    assert model.is_free
    async with httpx2.AsyncClient() as client:
        with pytest.raises(httpx2.ConnectError):
            await client.post(url, json=question, headers=key)
