"""Names of models, and who can be asked."""

import pytest
from msgspec import structs

from weft.config.sections import ModelsSettings, ProviderSettings
from weft.llm.errors import ModelError
from weft.llm.models import ModelAvailability, model_name_problem, resolved, verdicts
from weft.llm.providers import access as access_module
from weft.llm.providers.access import access_to

SETTINGS = ModelsSettings(
    default="fast",
    aliases={"fast": "cheap", "cheap": "openai:gpt-4o-mini", "best": "mine:llama3:8b", "odd": "nobody:x"},
    providers={
        "mine": ProviderSettings(base_url="http://127.0.0.1:11434/v1"),
        "keyed": ProviderSettings(base_url="https://models.example/v1", api_key_env="KEYED_KEY"),
        "second": ProviderSettings(kind="anthropic"),
    },
)


@pytest.mark.parametrize(
    ("name", "provider", "expected"),
    [
        (None, None, "openai:gpt-4o-mini"),
        ("fast", None, "openai:gpt-4o-mini"),
        ("best", None, "mine:llama3:8b"),
        ("anthropic:claude", None, "anthropic:claude"),
        ("openai:gpt", "keyed", "keyed:gpt"),
        ("fast", "keyed", "keyed:gpt-4o-mini"),
        ("gpt", "openai", "openai:gpt"),
        (None, "keyed", "keyed:gpt-4o-mini"),
        ("local:auto", None, "local:auto"),
    ],
)
def test_a_name_stands_for_a_model_of_a_provider(
    name: str | None, provider: str | None, expected: str
) -> None:
    assert str(resolved(name, SETTINGS, provider)) == expected


def test_without_anything_it_is_the_embedded_model() -> None:
    assert str(resolved(None, ModelsSettings())) == "local:auto"
    assert str(resolved(None, ModelsSettings(), "local")) == "local:auto"


@pytest.mark.parametrize(
    ("name", "provider", "message"),
    [
        ("fats", None, "unknown model 'fats': neither an alias nor 'provider:model'; did you mean 'fast'?"),
        ("opnai:gpt", None, "model 'opnai:gpt': unknown provider 'opnai'; did you mean 'openai'?"),
        ("odd", None, "unknown provider 'nobody'"),
        ("openai:", None, "'openai:' is not a model name"),
        (":gpt", None, "':gpt' is not a model name"),
        ("smollm2", None, "did you mean 'local:smollm2'?"),
        ("qwen2.5-coder-1.5b", None, "did you mean 'local:qwen2.5-coder-1.5b'?"),
        ("", None, "unknown model ''"),
        ("openai:gpt", "kyed", "unknown provider 'kyed'; did you mean 'keyed'?"),
    ],
)
def test_a_wrong_name_is_refused_with_the_nearest(name: str, provider: str | None, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        resolved(name, SETTINGS, provider)

    assert message in caught.value.message
    assert caught.value.reason == "configuration_error"


def test_a_provider_without_any_model_is_refused() -> None:
    with pytest.raises(ModelError, match="provider 'openai' is given without a model"):
        resolved(None, ModelsSettings(), "openai")


def test_aliases_in_a_circle_made_by_a_program_are_an_error_and_no_hang() -> None:
    with pytest.raises(ModelError, match="leads back to itself"):
        resolved("a", ModelsSettings(aliases={"a": "b", "b": "a"}))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("openai:anything", None),
        ("fast", None),
        ("local:auto", None),
        ("local:smollm2", None),
        ("local:minilm", "all-minilm-l6-v2 makes embeddings and cannot generate text"),
        ("local:/models/mine.gguf", None),
        ("local:atuo", "there is no embedded model 'atuo'"),
        ("nobody:x", "unknown provider 'nobody'"),
    ],
)
def test_what_is_wrong_with_a_name_can_be_told_without_asking(name: str, problem: str | None) -> None:
    found = model_name_problem(name, SETTINGS)

    assert found is None if problem is None else found is not None and problem in found


def test_a_key_is_where_the_settings_or_the_usual_variables_say() -> None:
    environment = {"OPENAI_API_KEY": " o ", "GEMINI_API_KEY": "g", "KEYED_KEY": "k", "ANTHROPIC_API_KEY": "a"}
    found = {name: access_to(name, SETTINGS, environment) for name in ("openai", "google", "keyed", "second")}

    assert {name: one.key.reveal() for name, one in found.items() if one.key} == {
        "openai": "o",
        "google": "g",
        "keyed": "k",
        "second": "a",
    }
    assert found["openai"].base_url is None


def test_the_usual_key_is_not_sent_to_another_server() -> None:
    found = access_to("mine", SETTINGS, {"OPENAI_API_KEY": "o"})

    assert (found.key, found.kind, found.base_url) == (None, "openai", "http://127.0.0.1:11434/v1")


def test_the_address_of_openai_can_be_set_by_its_variable_and_needs_no_key_then() -> None:
    found = access_to("openai", SETTINGS, {"OPENAI_BASE_URL": "http://127.0.0.1:8080/v1"})

    assert (found.base_url, found.key) == ("http://127.0.0.1:8080/v1", None)
    with pytest.raises(ModelError, match="OPENAI_BASE_URL must be an address"):
        access_to("openai", SETTINGS, {"OPENAI_BASE_URL": "nonsense"})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("google", "set the environment variable GOOGLE_API_KEY or GEMINI_API_KEY"),
        ("keyed", "no key for 'keyed': set the environment variable KEYED_KEY"),
        ("nobody", "unknown provider 'nobody'"),
    ],
)
def test_who_cannot_be_asked_says_what_is_missing(name: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        access_to(name, SETTINGS, {"KEYED_KEY": "  "})

    assert message in caught.value.message


def test_a_missing_package_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_module, "is_installed", lambda package: package != "anthropic")

    assert access_to("openai", SETTINGS, {"OPENAI_API_KEY": "o"}).kind == "openai"
    with pytest.raises(ModelError) as caught:
        access_to("anthropic", SETTINGS, {"ANTHROPIC_API_KEY": "a"})

    assert caught.value.message == (
        "provider 'anthropic' needs an extra package: pip install 'weft[anthropic]'"
    )


def test_verdicts_say_what_is_usable_and_why_the_rest_is_not() -> None:
    embedded = (ModelAvailability(kind="embedded", name="local:tiny", is_usable=False, why="not here"),)
    settings = structs.replace(
        SETTINGS, aliases={**SETTINGS.aliases, "here": "local:tiny", "any": "local:auto"}
    )

    found = {one.name: one for one in verdicts(settings, {"OPENAI_API_KEY": "o"}, embedded)}

    assert {name for name, one in found.items() if one.is_usable} == {
        "openai",
        "mine",
        "fast",
        "cheap",
        "best",
    }
    assert found["openai"].why == "key in OPENAI_API_KEY"
    assert found["mine"].why == "no key, at http://127.0.0.1:11434/v1"
    assert found["fast"].why == "openai:gpt-4o-mini"
    assert "ANTHROPIC_API_KEY" in found["anthropic"].why
    assert "unknown provider 'nobody'" in found["odd"].why
    assert found["here"].why == "local:tiny: not here"
    assert found["any"].why == "local:auto: no embedded model is installed"
    assert {one.kind for one in found.values()} == {"embedded", "provider", "alias"}
