"""Which models there are and what they may use: the tables `[models]` and `[tools]` of `weft.toml`."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]
Amount = Annotated[float, Meta(ge=0)]
Fraction = Annotated[float, Meta(gt=0, le=1)]


class ProviderSettings(Struct, frozen=True, kw_only=True):
    """`[models.providers.NAME]`: how to reach a provider, and how fast to ask it."""

    kind: Literal["openai", "anthropic", "google"] | None = None
    """The protocol it speaks; None: its name says it."""
    base_url: str | None = None
    api_key_env: str | None = None
    """The environment variable that holds the key; the key itself does not belong in a file."""
    timeout_seconds: Seconds = 300.0
    """How long to wait for a whole answer; of a stream, between two pieces of its text."""
    retries: Annotated[int, Meta(ge=0)] = 4
    """How often a request is made again after a transient error."""
    concurrency: Positive = 64
    """Requests under way at the same time."""
    requests_per_minute: Positive | None = None
    tokens_per_minute: Positive | None = None


class ModelParameters(Struct, frozen=True, kw_only=True):
    """`[models.settings."provider:model"]`: how one model is asked, and what is known of it."""

    temperature: Amount | None = None
    max_tokens: Positive | None = None
    context_window: Positive | None = None
    input_price: Amount | None = None
    """US dollars per million tokens, over what the price list says."""
    output_price: Amount | None = None
    output: Literal["held", "asked", "none"] | None = None
    """How it is held to a JSON Schema; None: what is known of the provider."""
    has_tools: bool | None = None


class HandlerSettings(Struct, frozen=True, kw_only=True):
    """`[models.handler]`: `HandlerConfig` and `ResourceLimits` of every session."""

    max_turns: Positive = 20
    max_context_window_fraction: Fraction = 0.9
    """How much of a model's window the input may fill."""
    warning_threshold: Fraction = 0.8
    timeout_seconds: Seconds | None = None
    """For a whole task with all its turns; None: no limit but the task's own."""
    system_prompt: str = ""
    """Comes before the system prompt of every task."""


class ModelsSettings(Struct, frozen=True, kw_only=True):
    """`[models]`."""

    default: str | None = None
    """An alias or `provider:model`. None: `WEFT_MODEL`, else the embedded model."""
    aliases: dict[str, str] = field(default_factory=dict)
    providers: dict[str, ProviderSettings] = field(default_factory=dict)
    settings: dict[str, ModelParameters] = field(default_factory=dict)
    handler: HandlerSettings = field(default_factory=HandlerSettings)


class ToolsSettings(Struct, frozen=True, kw_only=True):
    """`[tools]`."""

    roots: tuple[str, ...] = (".",)
    """Folders that file tools and `file_paths` may reach; in `weft.toml` relative to that file."""
    modules: tuple[str, ...] = ()
    """Python modules that are imported for their `@weft.tool` functions."""
    allow_own_modules: bool = False
    """Whether file tools may write modules that weft imports: these, and those of `[executors.python]`."""
    executors: tuple[str, ...] = ()
    """Executors that may be called as tools, `executor:NAME`."""
    mcp: str = ".mcp.json"
    """The file that names MCP servers."""
    read_only_hints: tuple[str, ...] = ()
    """MCP servers that are believed when they call a tool read-only."""
