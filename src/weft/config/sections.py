"""The tables `[executors]`, `[models]`, `[tools]` and `[memory]` of `weft.toml`."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

DEFAULT_GRACE_SECONDS = 2.0
"""Between SIGTERM and SIGKILL: long enough to remove temporary files, short enough to wait for. When weft
stops, it comes on top of the time that tasks get to end by themselves."""


EDIT_FORMAT = "^[a-z][a-z-]*$"
"""What the name of an edit format of aider looks like."""


class CommandSettings(Struct, frozen=True, kw_only=True):
    """`[executors.command]`."""

    allow: tuple[str, ...] | None = None
    """The programs that may run, by name or absolute path; None: any."""
    allow_shell: bool | None = None
    """Whether `shell: true` works; None: only while every program may run, as a shell can run any."""
    environment: tuple[str, ...] = ()
    """Further variables of weft's environment that commands and scripts get; `NAME_*` is every name that
    begins so."""
    grace_seconds: Annotated[float, Meta(ge=0)] = DEFAULT_GRACE_SECONDS
    """How long a command that is called off may take to end by itself."""

    @property
    def is_shell_allowed(self) -> bool:
        return self.allow is None if self.allow_shell is None else self.allow_shell


class HttpSettings(Struct, frozen=True, kw_only=True):
    """`[executors.http]`."""

    allow_private: bool = False
    """Whether loopback and private addresses may be called."""
    allow_hosts: tuple[str, ...] = ()
    """`host` or `host:port` that may be called whatever its address is."""


class PythonSettings(Struct, frozen=True, kw_only=True):
    """`[executors.python]`."""

    modules: tuple[str, ...] = ()
    """The modules whose functions may be called; each with its submodules."""
    path: tuple[str, ...] = ()
    """Folders to look for them in, after Python's own; in `weft.toml` relative to that file."""


class AiderSettings(Struct, frozen=True, kw_only=True):
    """`[executors.aider]`."""

    program: str | None = None
    """A name on PATH, or an absolute path; None: `aider` on PATH, else weft's own."""
    install: bool = True
    """Whether it is installed into the cache folder when it is needed and not there."""
    auto_commits: bool = True
    """Whether it commits what it has changed, in a git repository."""
    edit_format: Annotated[str, Meta(pattern=EDIT_FORMAT)] | None = None
    """How the model writes edits (`diff`, `whole`, ...); None: what aider knows of the model."""
    map_tokens: Annotated[int, Meta(ge=0)] = 0
    """How much of a map of the whole repository the model is shown; aider keeps it in the repository."""
    timeout_seconds: Annotated[float, Meta(gt=0)] = 1800.0
    """How long it may work where nobody watches."""


class ExecutorSettings(Struct, frozen=True, kw_only=True):
    """What each built-in executor may do."""

    aider: AiderSettings = field(default_factory=AiderSettings)
    command: CommandSettings = field(default_factory=CommandSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    python: PythonSettings = field(default_factory=PythonSettings)


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


class MemorySettings(Struct, frozen=True, kw_only=True):
    """`[memory]`."""

    roots: tuple[str, ...] = ()
    """Folders whose files are indexed; in `weft.toml` relative to that file. None: the roots of `[tools]`."""
    max_file_bytes: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 1_000_000
    """Larger files are left out. A file is read at once, so that there is a most."""
    ignore: tuple[str, ...] = ()
    """More of what is left out: patterns as in a `.gitignore` at each root."""
    max_tokens: Positive = 8_000
    """How many tokens memory gives to one task; less where the model's window has less room."""
    max_pieces: Positive = 20
    """How many pieces of files are looked for."""
    max_files: Positive = 5
    """How many files `file_paths` with a description gives."""
    embeddings: str | None = None
    """`local:NAME`: the embedded model that puts what was found by words into an order by meaning too."""
    rerank: bool = False
    """Whether the task's model is asked to put what was found into order."""
