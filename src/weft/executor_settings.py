"""What the built-in executors may do: the tables `[executors.*]` of `weft.toml`."""

from typing import Annotated

from msgspec import Meta, Struct, field

DEFAULT_GRACE_SECONDS = 2.0
"""Between SIGTERM and SIGKILL: long enough to remove temporary files, short enough to wait for. When weft
stops, it comes on top of the time that tasks get to end by themselves."""


class CommandSettings(Struct, frozen=True, kw_only=True):
    """`[executors.command]`."""

    allow: tuple[str, ...] | None = None
    """The programs that may run, by name or absolute path; None: any."""
    allow_shell: bool | None = None
    """Whether `shell: true` works; None: only while every program may run, as a shell can run any."""
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


class ExecutorSettings(Struct, frozen=True, kw_only=True):
    """What each built-in executor may do."""

    command: CommandSettings = field(default_factory=CommandSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    python: PythonSettings = field(default_factory=PythonSettings)
