"""The tables `[executors]`, `[models]`, `[tools]` and `[memory]` of `weft.toml`."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

DEFAULT_GRACE_SECONDS = 2.0
"""Time between SIGTERM and SIGKILL: long enough to remove temporary files, short enough to wait for. When
weft stops, it is added to the time that tasks have to end by themselves."""


EDIT_FORMAT = "^[a-z][a-z-]*$"
"""Pattern for names of edit formats of aider."""


class CommandSettings(Struct, frozen=True, kw_only=True):
    """The table `[executors.command]`."""

    allow: tuple[str, ...] | None = None
    """Executables that may run, by name or absolute path; None: any."""
    allow_shell: bool | None = None
    """Whether `shell: true` is allowed; None: only if `allow` is unset, as a shell can run anything."""
    environment: tuple[str, ...] = ()
    """Further variables of weft's environment that commands and scripts get; `NAME_*` matches a prefix."""
    grace_seconds: Annotated[float, Meta(ge=0)] = DEFAULT_GRACE_SECONDS
    """How long a cancelled command may take to end by itself."""

    @property
    def is_shell_allowed(self) -> bool:
        return self.allow is None if self.allow_shell is None else self.allow_shell


class HttpSettings(Struct, frozen=True, kw_only=True):
    """The table `[executors.http]`."""

    allow_private: bool = False
    """Whether requests to loopback and private addresses are allowed."""
    allow_hosts: tuple[str, ...] = ()
    """`host` or `host:port` allowed regardless of the address."""


class PythonSettings(Struct, frozen=True, kw_only=True):
    """The table `[executors.python]`."""

    modules: tuple[str, ...] = ()
    """Modules whose functions may be called, including submodules."""
    path: tuple[str, ...] = ()
    """Folders to import these modules from, after Python's own; in `weft.toml` relative to that file."""


class AiderSettings(Struct, frozen=True, kw_only=True):
    """The table `[executors.aider]`."""

    program: str | None = None
    """Executable: a name on PATH, or an absolute path. None: `aider` on PATH, otherwise weft's own."""
    install: bool = True
    """Whether to install aider into the cache folder if it is needed and missing."""
    auto_commits: bool = True
    """Whether aider commits its changes in a git repository."""
    edit_format: Annotated[str, Meta(pattern=EDIT_FORMAT)] | None = None
    """Format in which the model writes edits (`diff`, `whole`, ...); None: aider's choice for the model."""
    map_tokens: Annotated[int, Meta(ge=0)] = 0
    """Maximum tokens of aider's repository map in the prompt; aider keeps the map in the repository."""
    timeout_seconds: Annotated[float, Meta(gt=0)] = 1800.0
    """Time limit for unattended runs of aider."""


class ExecutorSettings(Struct, frozen=True, kw_only=True):
    """Permissions of the built-in executors."""

    aider: AiderSettings = field(default_factory=AiderSettings)
    command: CommandSettings = field(default_factory=CommandSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    python: PythonSettings = field(default_factory=PythonSettings)


Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]
Amount = Annotated[float, Meta(ge=0)]
Fraction = Annotated[float, Meta(gt=0, le=1)]


ProviderKind = Literal["openai", "anthropic", "google"]
"""Protocols of providers; `weft.llm.providers.kinds` implements them."""

KEY_VARIABLES: dict[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}
"""Environment variables with the keys of known providers; the first that is set counts."""


class ProviderSettings(Struct, frozen=True, kw_only=True):
    """The table `[models.providers.NAME]`: how to reach a provider, and its rate limits."""

    kind: ProviderKind | None = None
    """Protocol; None: that of the known provider with this name, `openai` for other names."""
    base_url: str | None = None
    api_key_env: str | None = None
    """Environment variable with the key; the key itself does not belong in a file."""
    timeout_seconds: Seconds = 300.0
    """How long to wait for a complete response, or between two chunks of a stream."""
    retries: Annotated[int, Meta(ge=0)] = 4
    """Number of retries after transient errors."""
    concurrency: Positive = 64
    """Maximum number of concurrent requests."""
    requests_per_minute: Positive | None = None
    tokens_per_minute: Positive | None = None


class ModelParameters(Struct, frozen=True, kw_only=True):
    """The table `[models.settings."provider:model"]`: request parameters and properties of one model."""

    temperature: Amount | None = None
    max_tokens: Positive | None = None
    context_window: Positive | None = None
    input_price: Amount | None = None
    """US dollars per million tokens; overrides the price list."""
    output_price: Amount | None = None
    output: Literal["held", "asked", "none"] | None = None
    """`held`: the provider enforces a JSON Schema; `asked`: it has only a JSON mode; `none`: only the prompt
    asks for JSON. None: as known for the model."""
    has_tools: bool | None = None


class HandlerSettings(Struct, frozen=True, kw_only=True):
    """The table `[models.handler]`: limits and common system prompt of all model sessions."""

    max_turns: Positive = 20
    max_context_window_fraction: Fraction = 0.9
    """Part of the model's context window that the input may fill."""
    warning_threshold: Fraction = 0.8
    """Part of a limit of the session after which its use is reported."""
    timeout_seconds: Seconds | None = None
    """Time limit for a task with all its turns; None: only the task's own limit."""
    system_prompt: str = ""
    """Text to put before the system prompt of every task."""


class ModelsSettings(Struct, frozen=True, kw_only=True):
    """The table `[models]`."""

    default: str | None = None
    """An alias or `provider:model`. None: `WEFT_MODEL`, otherwise the embedded model."""
    aliases: dict[str, str] = field(default_factory=dict)
    providers: dict[str, ProviderSettings] = field(default_factory=dict)
    settings: dict[str, ModelParameters] = field(default_factory=dict)
    handler: HandlerSettings = field(default_factory=HandlerSettings)


class ToolsSettings(Struct, frozen=True, kw_only=True):
    """The table `[tools]`."""

    roots: tuple[str, ...] = (".",)
    """Folders that file tools and `file_paths` may access; in `weft.toml` relative to that file."""
    modules: tuple[str, ...] = ()
    """Python modules to import for their `@weft.tool` functions."""
    allow_own_modules: bool = False
    """Whether file tools may write modules that weft imports, including those of `[executors.python]`."""
    executors: tuple[str, ...] = ()
    """Executors that may be called as tools, `executor:NAME`."""
    mcp: str = ".mcp.json"
    """File that lists the MCP servers."""
    read_only_hints: tuple[str, ...] = ()
    """MCP servers that are trusted when they declare a tool read-only."""


class MemorySettings(Struct, frozen=True, kw_only=True):
    """The table `[memory]`."""

    roots: tuple[str, ...] = ()
    """Folders to index; in `weft.toml` relative to that file. Empty: the roots of `[tools]`."""
    max_file_bytes: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 1_000_000
    """Larger files are not indexed. Limited, because a file is read into memory as a whole."""
    ignore: tuple[str, ...] = ()
    """Further files to skip: patterns as in a `.gitignore` at each root."""
    max_tokens: Positive = 8_000
    """Maximum tokens from memory per task; fewer if the model's context window is too small."""
    max_pieces: Positive = 20
    """Maximum number of pieces of files to search for."""
    max_files: Positive = 5
    """Maximum number of files for `file_paths` with a description."""
    embeddings: str | None = None
    """`local:NAME`: the embedded model that also ranks keyword matches by meaning."""
    rerank: bool = False
    """Whether the task's model ranks the matches."""
