"""The models that settings and environment make known, found by name."""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from weft.llm.errors import ModelError
from weft.llm.events import OnEvent
from weft.llm.model_names import AUTO, ModelName, resolved
from weft.llm.protocol import Model, Models
from weft.llm.providers.access import access_to
from weft.llm.providers.timing import Timing
from weft.llm.verdicts import Verdict, verdicts
from weft.model_settings import ModelParameters, ModelsSettings
from weft.project_models import KEY_VARIABLES, LOCAL

if TYPE_CHECKING:
    from weft.llm.providers.connection import Connection
    from weft.llm.providers.provider_model import ProviderModel


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

    def verdicts(self, embedded: tuple[Verdict, ...] = ()) -> tuple[Verdict, ...]:
        """What can be used and why the rest cannot; nobody is asked over the network."""
        return verdicts(self._settings, self._environment, embedded)

    async def _opened(self, name: ModelName) -> Model:
        access = access_to(name.provider, self._settings, self._environment)
        async with self._opening:
            if name in self._models:
                return self._models[name]
            # In a thread: the import takes a second, and the event loop has other work.
            await asyncio.to_thread(_import_clients)
            from weft.llm.providers.connection import Connection
            from weft.llm.providers.provider_model import ProviderModel

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
    import weft.llm.providers.provider_model  # noqa: F401
