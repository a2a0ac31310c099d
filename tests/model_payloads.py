"""Models of the scripted server, and payloads for them, for tests of whatever asks a model."""

from collections.abc import Mapping
from typing import Any

from tests.model_server import ModelServer
from tests.payloads import a_payload as a_payload
from weft.config.sections import ModelsSettings, ProviderSettings
from weft.llm.models import ConfiguredModels

KEY = "sk-test/ab+cd=ef-0123456789"
"""With signs that are written otherwise in URLs."""

KINDS = ("openai", "anthropic", "google")

MODEL_OF = {
    "openai": "here:gpt-4o-mini",
    "anthropic": "there:claude-sonnet-5-5",
    "google": "far:gemini-2.5-flash",
}
"""A model of each kind at the scripted server."""


def served_settings(server: ModelServer, **fields: Any) -> ModelsSettings:
    """One provider of each kind, all of them the scripted server; asked once, and not for long."""
    each: dict[str, Any] = {"api_key_env": "SERVER_KEY", "retries": 0, "timeout_seconds": 30.0, **fields}
    return ModelsSettings(
        providers={
            "here": ProviderSettings(kind="openai", base_url=server.base_url, **each),
            "there": ProviderSettings(kind="anthropic", base_url=server.url, **each),
            "far": ProviderSettings(kind="google", base_url=server.url, **each),
        }
    )


def served_models(server: ModelServer, **fields: Any) -> ConfiguredModels:
    """Return the models of the scripted server; fields of providers, and `on_event`, `timing`."""
    ours: Mapping[str, Any] = {name: fields.pop(name) for name in ("on_event", "timing") if name in fields}
    return ConfiguredModels(served_settings(server, **fields), {"SERVER_KEY": KEY}, **ours)
