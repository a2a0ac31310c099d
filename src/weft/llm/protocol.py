"""The model protocol, and models given by name."""

from collections.abc import Callable, Mapping
from typing import Literal, Protocol

from msgspec import Struct

from weft.llm.errors import InvalidModel, ModelError
from weft.llm.payload import HandlerPayload, ModelReply, Usage

OnText = Callable[[str], None]
"""Gets each piece of text as it arrives. Called in the event loop; must not block."""


class Features(Struct, frozen=True, kw_only=True):
    """What a model can do."""

    context_window: int | None = None
    """Tokens of input and output together; None: not known."""
    max_output_tokens: int | None = None
    output: Literal["held", "asked", "none"] = "none"
    """JSON output: `held` to the schema by the provider or a grammar, `asked` for in a mode that gives JSON
    of any shape, or left to the prompt."""
    has_tools: bool = True
    is_local: bool = False


class Model(Protocol):
    """Answers payloads. One object serves many tasks at the same time, in one event loop."""

    @property
    def id(self) -> str:
        """`provider:model`."""
        ...

    @property
    def features(self) -> Features:
        """What it can do."""
        ...

    @property
    def settings_digest(self) -> str:
        """Another one when something besides payload and id decides on the answers: where it is asked, how
        warm, at what length. Empty: nothing does."""
        ...

    async def request(self, payload: HandlerPayload, on_text: OnText | None = None) -> ModelReply:
        """The answer. Raises ModelError. Cancelling it stops the request where it runs."""
        ...

    async def count_tokens(self, payload: HandlerPayload) -> int:
        """How many tokens the payload takes: exact where the tokenizer is at hand, else rather too many."""
        ...

    def price(self, usage: Usage) -> float | None:
        """What that usage costs, in US dollars; 0.0 for a local model; None: not known."""
        ...


class Models(Protocol):
    """The models there are."""

    async def find(self, model: str | None, provider: str | None = None) -> Model:
        """The model of an alias or `provider:model`, or the default one. Raises ModelError.

        `provider` replaces the provider part of the name.
        """
        ...

    async def close(self) -> None:
        """Let go of connections and of models in memory."""
        ...


class StaticModels:
    """One model for every name, or some by their names; the first of these is the default one."""

    def __init__(self, models: Model | Mapping[str, Model]) -> None:
        self._named = dict(models) if isinstance(models, Mapping) else {}
        self._any = None if isinstance(models, Mapping) else models
        self.asked: list[str | None] = []
        """The names that were asked for, in order."""

    async def find(self, model: str | None, provider: str | None = None) -> Model:
        """The model of that name. Raises ModelError."""
        name = model
        if model is not None and provider is not None:
            name = f"{provider}:{model.rpartition(':')[2]}"
        self.asked.append(name)
        if self._any is not None:
            return self._any
        if not self._named:
            raise ModelError("configuration_error", "no model is given")
        if name is None:
            return next(iter(self._named.values()))
        if name not in self._named:
            known = ", ".join(self._named)
            raise InvalidModel("configuration_error", f"there is no model '{name}' (given: {known})")
        return self._named[name]

    async def close(self) -> None:
        """Nothing is held."""
