"""Find models by name, and report which can be used now and why the rest cannot."""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from weft.config.sections import ModelParameters, ModelsSettings
from weft.config.toml import KEY_VARIABLES, LOCAL, meant
from weft.llm.errors import InvalidModel, ModelError
from weft.llm.events import OnEvent
from weft.llm.protocol import Model, Models
from weft.llm.providers.access import access_to, provider_names
from weft.llm.providers.rate_limits import Timing

if TYPE_CHECKING:
    from weft.llm.providers.client import Connection
    from weft.llm.providers.model import ProviderModel


class ModelName(Struct, frozen=True):
    """Which model of which provider."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


AUTO = ModelName(LOCAL, "auto")
"""The best embedded model that is there."""


def resolved(name: str | None, settings: ModelsSettings, provider: str | None = None) -> ModelName:
    """What a name stands for: aliases followed, the default for None, the provider replaced.

    Raises ModelError when there is no such alias or provider, or half of the name is missing.
    """
    if name is None:
        name = settings.default or (None if provider else str(AUTO))
    if name is None:
        if provider == LOCAL:
            return AUTO
        raise _problem(f"provider '{provider}' is named, but no model: say which one")
    name = _followed(name.strip(), settings)
    found, separator, model = name.partition(":")
    if not separator:
        if provider is None:
            raise _problem(_unknown(name, settings))
        found, model = provider, name
    found = provider or found
    if not found or not model:
        raise _problem(f"'{name}' is no model: a name is 'provider:model'")
    known = [*provider_names(settings), LOCAL]
    if found not in known:
        raise _problem(f"model '{name}': unknown provider '{found}'{meant(found, known)}")
    return ModelName(found, model)


def model_name_problem(name: str, settings: ModelsSettings, provider: str | None = None) -> str | None:
    """What is wrong with the name of a model; None when nothing is that can be known without asking."""
    try:
        found = resolved(name, settings, provider)
    except ModelError as error:
        return error.message
    return _embedded_problem(found.model) if found.provider == LOCAL else None


def _embedded_problem(model: str) -> str | None:
    """What is wrong with the name of an embedded model; whether it is here is not asked."""
    if model == AUTO.model or model.endswith(".gguf") or "/" in model:
        return None
    # Imported here: most names are no names of embedded models.
    from weft.llm.local.catalogue import NoSuchEmbeddedModel, find_entry

    try:
        entry = find_entry(model)
    except NoSuchEmbeddedModel as error:
        return error.message
    return None if entry.makes == "text" else f"{entry.name} makes embeddings and writes no text"


def _followed(name: str, settings: ModelsSettings) -> str:
    """The end of a chain of aliases; settings made by a program may have a cycle in them."""
    seen = {name}
    while (target := settings.aliases.get(name)) is not None:
        name = target.strip()
        if name in seen:
            raise _problem(f"the alias '{name}' leads back to itself")
        seen.add(name)
    return name


def _unknown(name: str, settings: ModelsSettings) -> str:
    known = [*settings.aliases, *(f"{provider}:" for provider in provider_names(settings)), f"{LOCAL}:auto"]
    hint = meant(name, known) if settings.aliases else ""
    if "/" not in name and _embedded_problem(name) is None:
        hint = f"; did you mean '{LOCAL}:{name}'?"
    return f"unknown model '{name}': it is no alias, and no 'provider:model'{hint}"


def _problem(message: str) -> ModelError:
    return InvalidModel("configuration_error", message)


class ModelAvailability(Struct, frozen=True, kw_only=True):
    """Whether a provider, an alias or an embedded model can be used."""

    kind: Literal["provider", "alias", "embedded"]
    name: str
    is_usable: bool
    why: str
    """Where its key is, what an alias stands for, or what is missing."""


def verdicts(
    settings: ModelsSettings, environment: Mapping[str, str], embedded: tuple[ModelAvailability, ...] = ()
) -> tuple[ModelAvailability, ...]:
    """One for each embedded model, each provider that is known or configured, and each alias."""
    providers = [_of_provider(name, settings, environment) for name in provider_names(settings)]
    known = {verdict.name: verdict for verdict in (*embedded, *providers)}
    aliases = [_of_alias(name, settings, known) for name in settings.aliases]
    return (*embedded, *providers, *aliases)


def _of_provider(name: str, settings: ModelsSettings, environment: Mapping[str, str]) -> ModelAvailability:
    try:
        access = access_to(name, settings, environment)
    except ModelError as error:
        return ModelAvailability(kind="provider", name=name, is_usable=False, why=error.message)
    key = f"key in {access.key_variable}" if access.key_variable else "no key"
    where = f", at {access.base_url}" if access.base_url else ""
    return ModelAvailability(kind="provider", name=name, is_usable=True, why=key + where)


def _of_alias(
    name: str, settings: ModelsSettings, known: Mapping[str, ModelAvailability]
) -> ModelAvailability:
    try:
        target = resolved(name, settings)
    except ModelError as error:
        return ModelAvailability(kind="alias", name=name, is_usable=False, why=error.message)
    if target.provider != LOCAL:
        provider = known[target.provider]
        why = str(target) if provider.is_usable else f"{target}: {provider.why}"
        return ModelAvailability(kind="alias", name=name, is_usable=provider.is_usable, why=why)
    if target.model == "auto":
        is_usable = any(verdict.is_usable for verdict in known.values() if verdict.kind == "embedded")
        why = str(target) if is_usable else f"{target}: no embedded model is there"
        return ModelAvailability(kind="alias", name=name, is_usable=is_usable, why=why)
    found = known.get(str(target))
    if found is not None and not found.is_usable:
        return ModelAvailability(kind="alias", name=name, is_usable=False, why=f"{target}: {found.why}")
    return ModelAvailability(kind="alias", name=name, is_usable=True, why=str(target))


class ConfiguredModels:
    """Implements `Models`. Clients are made when a model is first asked for, and shared by all its tasks.

    `local` has the embedded models; `on_fallback` is told once that one of them answers because nothing else
    was chosen. Belongs to one event loop.
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
        self._settings = _with_default(settings, default)
        self._environment = environment
        self._local = local
        self._on_event = on_event
        self._on_fallback = on_fallback
        self._timing = timing or Timing()
        self._connections: dict[str, Connection] = {}
        self._models: dict[ModelName, ProviderModel] = {}
        self._opening = asyncio.Lock()
        self._is_closed = False

    async def find(self, model: str | None, provider: str | None = None) -> Model:
        """The model of an alias or `provider:model`, or the default one. Raises ModelError."""
        if self._is_closed:
            raise ModelError("configuration_error", "the models are closed")
        name = resolved(model, self._settings, provider)
        if name.provider == LOCAL:
            if self._local is None:
                raise ModelError("configuration_error", f"'{name}': there are no embedded models here")
            found = await self._local.find(str(name))
            if model is None and name == AUTO and self._settings.default is None:
                self._tell_fallback(found)
            return found
        return self._models.get(name) or await self._opened(name)

    async def close(self) -> None:
        """Close all connections, and let go of the embedded models."""
        self._is_closed = True
        async with self._opening:
            connections = list(self._connections.values())
            self._connections.clear()
            self._models.clear()
        for connection in connections:
            await connection.close()
        if self._local is not None:
            await self._local.close()

    def verdicts(self, embedded: tuple[ModelAvailability, ...] = ()) -> tuple[ModelAvailability, ...]:
        """What can be used and why the rest cannot; nobody is asked over the network."""
        return verdicts(self._settings, self._environment, embedded)

    async def _opened(self, name: ModelName) -> Model:
        access = access_to(name.provider, self._settings, self._environment)
        async with self._opening:
            if name in self._models:
                return self._models[name]
            # In a thread: the import takes a second, and the event loop has other work.
            await asyncio.to_thread(_import_clients)
            from weft.llm.providers.client import Connection
            from weft.llm.providers.model import ProviderModel

            if name.provider not in self._connections:
                self._connections[name.provider] = Connection(access, self._timing)
            parameters = self._settings.settings.get(str(name), ModelParameters())
            self._models[name] = ProviderModel(
                self._connections[name.provider], name.model, parameters, self._timing, self._on_event
            )
            return self._models[name]

    def _tell_fallback(self, found: Model) -> None:
        if self._on_fallback is None:
            return
        tell, self._on_fallback = self._on_fallback, None
        keys = [
            variable
            for variables in KEY_VARIABLES.values()
            for variable in variables
            if self._environment.get(variable, "").strip()
        ]
        why = f"{keys[0]} is set, but no model is chosen" if keys else "no provider is configured"
        tell(
            f"{why}: using the embedded model {found.id} "
            "(set WEFT_MODEL, or default in [models] of weft.toml)"
        )


def _with_default(settings: ModelsSettings, default: str | None) -> ModelsSettings:
    from msgspec import structs

    return structs.replace(settings, default=default)


def _import_clients() -> None:
    import weft.llm.providers.model  # noqa: F401
