"""Finds models by name, and reports which models are available."""

import asyncio
from collections.abc import Callable, Mapping
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, structs

from weft.config.sections import KEY_VARIABLES, ModelParameters, ModelsSettings
from weft.config.toml import LOCAL, meant
from weft.llm.errors import InvalidModel, ModelError
from weft.llm.events import OnEvent
from weft.llm.protocol import Model, Models
from weft.llm.providers.access import access_to, provider_names
from weft.llm.providers.rate_limits import Timing

if TYPE_CHECKING:
    from weft.llm.providers.client import Connection
    from weft.llm.providers.model import ProviderModel


class ModelName(Struct, frozen=True):
    """A resolved model name: provider and model."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


AUTO = ModelName(LOCAL, "auto")
"""The best installed embedded model."""


def resolved(name: str | None, settings: ModelsSettings, provider: str | None = None) -> ModelName:
    """Resolve a model name: follow aliases, use the default for None, replace the provider if one is given.

    Raise ModelError if the alias or provider is unknown, or the name is incomplete.
    """
    if name is None:
        name = settings.default or (None if provider else str(AUTO))
    if name is None:
        if provider == LOCAL:
            return AUTO
        raise _problem(f"provider '{provider}' is given without a model: name the model too")
    name = _follow_aliases(name.strip(), settings)
    found, separator, model = name.partition(":")
    if not separator:
        if provider is None:
            raise _problem(_unknown_model(name, settings))
        found, model = provider, name
    found = provider or found
    if not found or not model:
        raise _problem(f"'{name}' is not a model name: use 'provider:model'")
    known = [*provider_names(settings), LOCAL]
    if found not in known:
        raise _problem(f"model '{name}': unknown provider '{found}'{meant(found, known)}")
    return ModelName(found, model)


def model_name_problem(name: str, settings: ModelsSettings) -> str | None:
    """Return what is wrong with a model name; None if it is well formed (the provider is not asked)."""
    try:
        found = resolved(name, settings)
    except ModelError as error:
        return error.message
    return _embedded_problem(found.model) if found.provider == LOCAL else None


def _embedded_problem(model: str) -> str | None:
    """Return what is wrong with the name of an embedded model; None if it is valid, installed or not."""
    if model == AUTO.model or model.endswith(".gguf") or "/" in model:
        return None
    # Imported here: most names are not those of embedded models.
    from weft.llm.local.catalogue import NoSuchEmbeddedModel, find_entry

    try:
        entry = find_entry(model)
    except NoSuchEmbeddedModel as error:
        return error.message
    return None if entry.makes == "text" else f"{entry.name} makes embeddings and cannot generate text"


def _follow_aliases(name: str, settings: ModelsSettings) -> str:
    """Return the target of a chain of aliases; raise ModelError on a cycle."""
    seen = {name}
    while (target := settings.aliases.get(name)) is not None:
        name = target.strip()
        if name in seen:
            raise _problem(f"the alias '{name}' leads back to itself")
        seen.add(name)
    return name


def _unknown_model(name: str, settings: ModelsSettings) -> str:
    known = [*settings.aliases, *(f"{provider}:" for provider in provider_names(settings)), f"{LOCAL}:auto"]
    hint = meant(name, known) if settings.aliases else ""
    if "/" not in name and _embedded_problem(name) is None:
        hint = f"; did you mean '{LOCAL}:{name}'?"
    return f"unknown model '{name}': neither an alias nor 'provider:model'{hint}"


def _problem(message: str) -> ModelError:
    return InvalidModel("configuration_error", message)


class ModelAvailability(Struct, frozen=True, kw_only=True):
    """The availability of a provider, an alias or an embedded model, with the reason."""

    kind: Literal["provider", "alias", "embedded"]
    name: str
    is_usable: bool
    why: str
    """The variable with the provider's key, the target of an alias, or what is missing."""


def verdicts(
    settings: ModelsSettings, environment: Mapping[str, str], embedded: tuple[ModelAvailability, ...] = ()
) -> tuple[ModelAvailability, ...]:
    """Return the availability of each embedded model, each known or configured provider, and each alias."""
    providers = [_check_provider(name, settings, environment) for name in provider_names(settings)]
    known = {found.name: found for found in (*embedded, *providers)}
    aliases = [_check_alias(name, settings, known) for name in settings.aliases]
    return (*embedded, *providers, *aliases)


def _check_provider(name: str, settings: ModelsSettings, environment: Mapping[str, str]) -> ModelAvailability:
    try:
        access = access_to(name, settings, environment)
    except ModelError as error:
        return ModelAvailability(kind="provider", name=name, is_usable=False, why=error.message)
    key = f"key in {access.key_variable}" if access.key_variable else "no key"
    where = f", at {access.base_url}" if access.base_url else ""
    return ModelAvailability(kind="provider", name=name, is_usable=True, why=key + where)


def _check_alias(
    name: str, settings: ModelsSettings, known: Mapping[str, ModelAvailability]
) -> ModelAvailability:
    try:
        target = resolved(name, settings)
    except ModelError as error:
        return ModelAvailability(kind="alias", name=name, is_usable=False, why=error.message)
    found = known.get(str(target) if target.provider == LOCAL else target.provider)
    missing = None if found is None or found.is_usable else found.why
    if target == AUTO and not any(one.is_usable for one in known.values() if one.kind == "embedded"):
        missing = "no embedded model is installed"
    why = str(target) if missing is None else f"{target}: {missing}"
    return ModelAvailability(kind="alias", name=name, is_usable=missing is None, why=why)


class ConfiguredModels:
    """Implements `Models` for the configured providers. Clients are created on first use and shared by tasks.

    `local` holds the embedded models. `on_fallback` is called once with a notice if an embedded model is used
    because no model was chosen. Belongs to one event loop.
    """

    def __init__(
        self,
        settings: ModelsSettings,
        environment: Mapping[str, str],
        local: Models | None = None,
        on_event: OnEvent | None = None,
        on_fallback: Callable[[str], None] | None = None,
        timing: Timing | None = None,
    ) -> None:
        default = settings.default or environment.get("WEFT_MODEL", "").strip() or None
        self._settings = structs.replace(settings, default=default)
        self._environment = environment
        self._local = local
        self._on_event = on_event
        self._on_fallback = on_fallback
        self._timing = timing or Timing()
        self._connections: dict[str, Connection] = {}
        self._models: dict[ModelName, ProviderModel] = {}
        self._open_lock = asyncio.Lock()
        self._is_closed = False

    async def find(self, model: str | None, provider: str | None = None) -> Model:
        if self._is_closed:
            raise ModelError("configuration_error", "the models are closed")
        name = resolved(model, self._settings, provider)
        if name.provider == LOCAL:
            if self._local is None:
                raise ModelError("configuration_error", f"'{name}': embedded models are not available here")
            found = await self._local.find(str(name))
            if model is None and name == AUTO and self._settings.default is None:
                self._report_fallback(found)
            return found
        return self._models.get(name) or await self._open(name)

    async def close(self) -> None:
        self._is_closed = True
        async with self._open_lock:
            connections = list(self._connections.values())
            self._connections.clear()
            self._models.clear()
        for connection in connections:
            await connection.close()
        if self._local is not None:
            await self._local.close()

    async def _open(self, name: ModelName) -> Model:
        access = access_to(name.provider, self._settings, self._environment)
        async with self._open_lock:
            if name in self._models:
                return self._models[name]
            # In a thread: the import takes a second and must not block the event loop.
            await asyncio.to_thread(import_module, "weft.llm.providers.model")
            from weft.llm.providers.client import Connection
            from weft.llm.providers.model import ProviderModel

            if name.provider not in self._connections:
                self._connections[name.provider] = Connection(access, self._timing)
            parameters = self._settings.settings.get(str(name), ModelParameters())
            self._models[name] = ProviderModel(
                self._connections[name.provider], name.model, parameters, self._timing, self._on_event
            )
            return self._models[name]

    def _report_fallback(self, found: Model) -> None:
        if self._on_fallback is None:
            return
        tell, self._on_fallback = self._on_fallback, None
        variables = chain.from_iterable(KEY_VARIABLES.values())
        keys = [variable for variable in variables if self._environment.get(variable, "").strip()]
        why = f"{keys[0]} is set, but no model is chosen" if keys else "no provider is configured"
        tell(
            f"{why}: using the embedded model {found.id} "
            "(set WEFT_MODEL, or default in [models] of weft.toml)"
        )
