"""What a model is to the handler, whoever runs it."""

from collections.abc import Callable
from typing import Literal, Protocol

from msgspec import Struct

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
