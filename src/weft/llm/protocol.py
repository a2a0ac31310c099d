"""The protocols of models and model registries, and a registry with a fixed set of models."""

from collections.abc import Callable, Mapping
from typing import Literal, Protocol

from msgspec import Struct

from weft.llm.errors import InvalidModel, ModelError
from weft.llm.payload import HandlerPayload, ModelReply, Usage

OnText = Callable[[str], None]
"""Callback for each piece of streamed text. Called in the event loop; must not block."""


class Features(Struct, frozen=True, kw_only=True):
    """The capabilities of a model."""

    context_window: int | None = None
    """Tokens of input and output together; None if unknown."""
    max_output_tokens: int | None = None
    """Longest response; None if unknown."""
    output: Literal["held", "asked", "none"] = "none"
    """Support for JSON output: `held` if the provider or a grammar enforces the schema, `asked` if there is a
    JSON mode that takes no schema, `none` if only the prompt can ask for JSON."""
    has_tools: bool = True
    is_local: bool = False


class Model(Protocol):
    """A model that responds to payloads. One object serves many concurrent tasks in one event loop."""

    @property
    def id(self) -> str:
        """Return `provider:model`."""
        ...

    @property
    def features(self) -> Features: ...

    @property
    def settings_digest(self) -> str:
        """Return a digest of the settings that affect responses and are not part of the payload or the id.

        For example the address, the temperature and the output length. Empty if there are no such settings.
        """
        ...

    async def request(self, payload: HandlerPayload, on_text: OnText | None = None) -> ModelReply:
        """Send the payload and return the response. Raise ModelError.

        With `on_text` the response is streamed. Cancellation also stops the request at the provider or in the
        local runtime.
        """
        ...

    async def count_tokens(self, payload: HandlerPayload) -> int:
        """Count the tokens of the payload: exactly if the tokenizer is available, else an upper estimate."""
        ...

    def price(self, usage: Usage) -> float | None:
        """Return the cost of `usage` in US dollars: 0.0 for a local model, None if the price is unknown."""
        ...


class Models(Protocol):
    """A registry of models."""

    async def find(self, model: str | None, provider: str | None = None) -> Model:
        """Find a model by alias or `provider:model`; None finds the default model. Raise ModelError.

        `provider` replaces the provider part of the name.
        """
        ...

    async def close(self) -> None:
        """Close connections and unload models from memory."""
        ...


class StaticModels:
    """Implements `Models` with one model for all names, or a mapping whose first model is the default."""

    def __init__(self, models: Model | Mapping[str, Model]) -> None:
        self._named = dict(models) if isinstance(models, Mapping) else {}
        self._only_model = None if isinstance(models, Mapping) else models
        self.asked: list[str | None] = []
        """The requested names, in order."""

    async def find(self, model: str | None, provider: str | None = None) -> Model:
        name = model
        if model is not None and provider is not None:
            name = f"{provider}:{model.rpartition(':')[2]}"
        self.asked.append(name)
        if self._only_model is not None:
            return self._only_model
        if not self._named:
            raise ModelError("configuration_error", "no model is configured")
        if name is None:
            return next(iter(self._named.values()))
        if name not in self._named:
            known = ", ".join(self._named)
            raise InvalidModel("configuration_error", f"there is no model '{name}' (given: {known})")
        return self._named[name]

    async def close(self) -> None: ...
