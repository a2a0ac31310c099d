"""Makes weft's models available to aider, with the same names, keys and addresses."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from msgspec import structs

from weft.config.sections import ModelParameters, ModelsSettings
from weft.config.toml import LOCAL
from weft.integrations.aider.request import AiderModel
from weft.llm.models import ModelName, resolved
from weft.llm.payload import Usage
from weft.llm.providers.access import Access, ApiKey, access_to
from weft.llm.providers.prices import Prices
from weft.tasks.record import JsonObject

if TYPE_CHECKING:
    from weft.llm.local.models import Fetch

_PREFIXES = {"google": "gemini"}
"""Prefixes of aider's model names and variables, for protocols with another name there."""

_NO_KEY = "none"
"""Placeholder for servers without keys, because aider's client requires a key."""

_MILLION = 1_000_000


class AiderModels:
    """Finds models for aider by the names that tasks use."""

    def __init__(
        self, settings: ModelsSettings, environment: Mapping[str, str], fetch: "Fetch | None" = None
    ) -> None:
        """Create the registry. `fetch` downloads missing embedded models."""
        default = settings.default or environment.get("WEFT_MODEL", "").strip() or None
        self._settings = structs.replace(settings, default=default)
        self._environment = environment
        self._fetch = fetch

    @asynccontextmanager
    async def opened(self, model: str | None, provider: str | None = None) -> AsyncIterator[AiderModel]:
        """Yield the model, which aider can use during the `with` block. Raise ModelError."""
        name = resolved(model, self._settings, provider)
        if name.provider != LOCAL:
            yield self._provider_model(name)
            return
        # Imported here: it is slow, and needs an extra.
        from weft.llm.local.models import EmbeddedModels

        models = EmbeddedModels(fetch=self._fetch)
        try:
            found = await models.find(str(name))
            async with found.listen() as (url, key):
                yield _embedded_model(found.id, url, key, found.features.context_window)
        finally:
            await models.close()

    def _provider_model(self, name: ModelName) -> AiderModel:
        access = access_to(name.provider, self._settings, self._environment, needs_client=False)
        parameters = self._settings.settings.get(str(name), ModelParameters())
        prefix = _PREFIXES.get(access.kind, access.kind)
        return AiderModel(
            id=str(name),
            name=f"{prefix}/{name.model}",
            key=access.key or ApiKey(_NO_KEY),
            key_variable=f"{prefix.upper()}_API_KEY",
            variables={} if access.base_url is None else {f"{prefix.upper()}_API_BASE": access.base_url},
            metadata=_metadata(access, name.model, parameters),
            is_free=parameters.input_price == parameters.output_price == 0,
        )


def _embedded_model(model_id: str, url: str, key: str, window: int | None) -> AiderModel:
    return AiderModel(
        id=model_id,
        name=f"openai/{model_id.removeprefix(f'{LOCAL}:')}",
        key=ApiKey(key),
        key_variable="OPENAI_API_KEY",
        variables={"OPENAI_API_BASE": url},
        metadata=_litellm_metadata("openai", window, None, None),
        is_free=True,
    )


def _metadata(access: Access, model: str, parameters: ModelParameters) -> JsonObject:
    """Return the context window and prices that are known without a network request."""
    prices = [parameters.input_price, parameters.output_price]
    window = parameters.context_window
    if find_spec("genai_prices") is not None:
        known = Prices(access, model, parameters)
        window = known.context_window
        prices = [known.price(Usage(input_tokens=_MILLION)), known.price(Usage(output_tokens=_MILLION))]
    return _litellm_metadata(_PREFIXES.get(access.kind, access.kind), window, *prices)


def _litellm_metadata(
    provider: str, window: int | None, input_price: float | None, output_price: float | None
) -> JsonObject:
    """Return the metadata in the format of aider's model list; the given prices are per million tokens."""
    metadata: JsonObject = {"litellm_provider": provider, "mode": "chat"}
    if window is not None:
        metadata["max_input_tokens"] = window
    if input_price is not None and output_price is not None:
        metadata["input_cost_per_token"] = input_price / _MILLION
        metadata["output_cost_per_token"] = output_price / _MILLION
    return metadata
