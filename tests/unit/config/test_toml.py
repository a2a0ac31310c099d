"""`[models]` and `[tools]` of `weft.toml`."""

import json
from pathlib import Path

import pytest

from weft.config.sections import (
    HandlerSettings,
    ModelParameters,
    ModelsSettings,
    ProviderSettings,
    ToolsSettings,
)
from weft.config.settings import Settings, load_settings
from weft.config.toml import InvalidSetting
from weft.effects.checks import SYSTEM_TOOLS, ToolNames
from weft.tools import open_toolbox

EVERYTHING = """
[models]
default = "fast"

[models.aliases]
fast = "openai:gpt-4o-mini"
good = "fast"

[models.providers.openai]
retries = 2
concurrency = 8
requests_per_minute = 100
tokens_per_minute = 10_000
timeout_seconds = 60

[models.providers.ollama]
kind = "openai"
base_url = "http://127.0.0.1:11434/v1"
api_key_env = "OLLAMA_KEY"

[models.settings."ollama:llama3:8b"]
temperature = 0.1
max_tokens = 100
context_window = 8192
input_price = 0.5
output_price = 1
output = "asked"
has_tools = false

[models.handler]
max_turns = 5
max_context_window_fraction = 0.5
warning_threshold = 0.4
timeout_seconds = 10
system_prompt = "Be brief."

[tools]
roots = [".", "../data"]
modules = ["my_project.tools"]
executors = ["http"]
mcp = "servers.json"
"""


def loaded(folder: Path, text: str = "", **environment: str) -> Settings:
    (folder / "weft.toml").write_text(text)
    return load_settings(environment=environment, folder=folder)


def test_every_setting_is_read(tmp_path: Path) -> None:
    found = loaded(tmp_path, EVERYTHING)

    assert found.models == ModelsSettings(
        default="fast",
        aliases={"fast": "openai:gpt-4o-mini", "good": "fast"},
        providers={
            "openai": ProviderSettings(
                retries=2,
                concurrency=8,
                requests_per_minute=100,
                tokens_per_minute=10_000,
                timeout_seconds=60.0,
            ),
            "ollama": ProviderSettings(
                kind="openai", base_url="http://127.0.0.1:11434/v1", api_key_env="OLLAMA_KEY"
            ),
        },
        settings={
            "ollama:llama3:8b": ModelParameters(
                temperature=0.1,
                max_tokens=100,
                context_window=8192,
                input_price=0.5,
                output_price=1.0,
                output="asked",
                has_tools=False,
            )
        },
        handler=HandlerSettings(
            max_turns=5,
            max_context_window_fraction=0.5,
            warning_threshold=0.4,
            timeout_seconds=10.0,
            system_prompt="Be brief.",
        ),
    )
    assert found.tools == ToolsSettings(
        roots=(str(tmp_path), str(tmp_path.parent / "data")),
        modules=("my_project.tools",),
        executors=("http",),
        mcp=str(tmp_path / "servers.json"),
    )


def test_without_the_file_the_defaults_are_in_force(tmp_path: Path) -> None:
    found = load_settings(environment={}, folder=tmp_path)

    assert found.models == ModelsSettings()
    assert found.tools.roots == (str(tmp_path),)


def test_the_variable_wins_over_the_file(tmp_path: Path) -> None:
    assert loaded(tmp_path, EVERYTHING, WEFT_MODEL="local:auto").models.default == "local:auto"
    with pytest.raises(InvalidSetting, match="WEFT_MODEL is empty"):
        loaded(tmp_path, "", WEFT_MODEL=" ")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("models = 1", "models must be a table"),
        ("[models]\ndefalt = 'x'", "[models]: unknown setting 'defalt'; did you mean 'default'?"),
        ("[models]\ndefault = 1", "default must be the name of a model"),
        ("[models]\nproviders = 1", "providers must be a table"),
        ("[models.aliases]\na = 1", "'a' must be the name of a model"),
        ("[models.aliases]\n'a:b' = 'openai:x'", "is not a valid alias"),
        ("[models.aliases]\na = 'b'\nb = 'c'\nc = 'a'", "aliases form a cycle: a -> b -> c -> a"),
        ("[models.aliases]\na = 'a'", "aliases form a cycle: a -> a"),
        (
            "[models.providers.openai]\nretrys = 1",
            "[models.providers.openai]: unknown setting 'retrys'; did you mean 'retries'?",
        ),
        ("[models.providers.openai]\nretries = -1", "retries must be a whole number, at least 0; this is -1"),
        ("[models.providers.mine]\nretries = 1", "[models.providers.mine] needs base_url, kind"),
        (
            "[models.providers.mine]\nkind = 'vllm'",
            "kind must be one of anthropic, google, openai; this is 'vllm'",
        ),
        ("[models.providers.mine]\nkind = 'opnai'", "this is 'opnai'; did you mean 'openai'?"),
        (
            "[models.handler]\nwarning_threshold = 2",
            "warning_threshold must be a number, more than 0, at most 1; this is 2",
        ),
        (
            '[models.settings."opnai:gpt"]\ntemperature = 1',
            "[models.settings.\"opnai:gpt\"]: unknown provider 'opnai'; did you mean 'openai'?",
        ),
        ("[models.providers.openai]\nkind = 'google'", "the kind of 'openai' is 'openai'"),
        ("[models.providers.local]\nkind = 'openai'", "'local' is the name of the embedded models"),
        ("[models.providers.Mine]\nkind = 'openai'", "a provider's name must be lower-case letters"),
        ("[models.providers.mine]\nbase_url = 'localhost:1'", "must be an address like http://"),
        ("[models.providers.mine]\nbase_url = 'http://u:p@x/'", "must not have a user or password in it"),
        ("[models.providers.mine]\nbase_url = 'http://[x/'", "must be an address like http://"),
        ("[models.settings.gpt]\ntemperature = 1", "the name must be 'provider:model'"),
        ("[models.settings.'a:b']\ntemprature = 1", "did you mean 'temperature'?"),
        (
            "[models.handler]\nmax_turns = 0",
            "[models.handler]: max_turns must be a whole number, at least 1; this is 0",
        ),
        ("[tools]\nroot = []", "[tools]: unknown setting 'root'; did you mean 'roots'?"),
        ("[tools]\nmodules = ['a b']", "[tools] modules: 'a b' is not the name of a module"),
    ],
)
def test_a_mistake_is_refused_by_name(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        loaded(tmp_path, text)

    assert reason in caught.value.message


@pytest.mark.parametrize(
    ("text", "variable"),
    [
        ("[models.providers.openai]\napi_key = 'sk-secret-1'", "OPENAI_API_KEY"),
        ("[models.providers.anthropic]\nkey = 'sk-secret-1'", "ANTHROPIC_API_KEY"),
        ("[models.providers.google]\nAPI-KEY = 'sk-secret-1'", "GOOGLE_API_KEY"),
        ("[models.providers.my-own]\ntoken = 'sk-secret-1'\nkind='openai'", "MY_OWN_API_KEY"),
        ("[models]\napi_key = 'sk-secret-1'", "OPENAI_API_KEY"),
        ("[models.providers.openai]\napi_key_env = 'sk-secret-1'", "not a key"),
    ],
)
def test_a_key_in_the_file_is_refused_without_repeating_it(tmp_path: Path, text: str, variable: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        loaded(tmp_path, text)

    assert variable in caught.value.message
    assert "secret" not in caught.value.message


def test_names_of_tools_are_known_as_far_as_settings_tell(tmp_path: Path) -> None:
    servers = tmp_path / "mcp.json"
    servers.write_text(json.dumps({"mcpServers": {"files": {"command": "x"}}}))
    names = ToolNames(ToolsSettings(executors=("http",), mcp=str(servers)))
    with_modules = ToolNames(ToolsSettings(modules=("mine",), mcp=str(tmp_path / "none.json")))

    assert {name for name in SOME_TOOLS if name in names} == {
        "system:read_files",
        "executor:http",
        "mcp:files:read",
    }
    assert {name for name in SOME_TOOLS if name in with_modules} == {"system:read_files", "python:mine"}
    assert "executor:http" in list(names)
    servers.write_text("no JSON")
    assert "shop:price" in ToolNames(ToolsSettings(), ["shop:price"])
    assert "shop:prices" not in ToolNames(ToolsSettings(), ["shop:price"])
    assert "mcp:others:read" in ToolNames(ToolsSettings(mcp=str(servers))), "that is not for here to say"


SOME_TOOLS = (
    "system:read_files",
    "system:read_file",
    "executor:http",
    "executor:command",
    "mcp:files:read",
    "mcp:others:read",
    "python:mine",
)


def test_the_names_of_system_tools_are_those_of_the_toolbox(tmp_path: Path) -> None:
    async def run_script(*arguments: object) -> None:
        """Nothing: no script is run."""

    toolbox = open_toolbox(ToolsSettings(), tmp_path, {}, run_script=run_script)  # type: ignore[arg-type]

    assert {name for name in toolbox.names() if name.startswith("system:")} == set(SYSTEM_TOOLS)
