"""What the built-in executors may do: the tables `[executors.*]` of `weft.toml`."""

from typing import Annotated

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
