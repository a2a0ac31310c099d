"""Settings from arguments, the environment, `weft.toml` and defaults, in this order."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from msgspec import Meta, Struct, field, structs

from weft.config.paths import STORE_FOLDER
from weft.config.sections import (
    AiderSettings,
    CommandSettings,
    ExecutorSettings,
    HttpSettings,
    MemorySettings,
    ModelsSettings,
    PythonSettings,
    ToolsSettings,
)
from weft.config.toml import InvalidSetting, check_names, module_name, read_models, table, tables_of
from weft.secrets.references import SecretSettings

PROJECT_FILE = "weft.toml"

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class StoreSettings(Struct, frozen=True, kw_only=True):
    """The table `[store]`."""

    shared: bool = False
    """Whether the file's group may use a SQLite store; otherwise only this user."""
    away_seconds: Annotated[float, Meta(ge=0.0, le=86_400.0)] = 60.0
    """How long a call to the store is retried while the store is unavailable."""


class ProjectSettings(Struct, frozen=True, kw_only=True):
    """The contents of a `weft.toml`."""

    executors: ExecutorSettings = field(default_factory=ExecutorSettings)
    models: ModelsSettings = field(default_factory=ModelsSettings)
    tools: ToolsSettings = field(default_factory=ToolsSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    secrets: SecretSettings = field(default_factory=SecretSettings)
    store: StoreSettings = field(default_factory=StoreSettings)


def find_project_file(folder: Path) -> Path | None:
    """Return the `weft.toml` of this folder or of the nearest folder above it; None if no folder has one."""
    for candidate in (folder, *folder.parents):
        if (candidate / PROJECT_FILE).is_file():
            return candidate / PROJECT_FILE
    return None


def read_project(folder: Path) -> ProjectSettings:
    """Read the project's `weft.toml`; return the defaults if there is no such file."""
    path = find_project_file(folder)
    if path is None:
        return ProjectSettings(tools=_tools(ToolsSettings(), folder))
    document = _read_document(path)
    check_names(document, ProjectSettings.__struct_fields__, where=str(path), what="table")
    return ProjectSettings(
        executors=_executors(tables_of(document, "executors", path), path),
        models=read_models(tables_of(document, "models", path), path),
        tools=_tools(table(ToolsSettings, document, "tools", where=f"{path}: [tools]"), path.parent),
        memory=_memory(table(MemorySettings, document, "memory", where=f"{path}: [memory]"), path),
        secrets=_secrets(table(SecretSettings, document, "secrets", where=f"{path}: [secrets]"), path),
        store=table(StoreSettings, document, "store", where=f"{path}: [store]"),
    )


def _stamp(folder: Path) -> tuple[object, ...]:
    path = find_project_file(folder)
    if path is None:
        return (None,)
    found = path.stat()
    return path, found.st_ino, found.st_mtime_ns, found.st_size


def project_folder(start: Path) -> Path:
    """Return the folder of the `weft.toml` that applies to `start`; without such a file, `start`."""
    file = find_project_file(start)
    return (start if file is None else file.parent).absolute()


def base_folder(project: ProjectSettings) -> Path:
    """Return the base of relative paths in tools, tasks and memory matches: the first root of `[tools]`."""
    return Path(next(iter(project.tools.roots), ".")).absolute()


def _read_document(path: Path) -> dict[str, Any]:
    # Imported here: most projects have no such file, and the import would slow down every command.
    import tomllib

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"{path}: not TOML: {error}") from error
    except OSError as error:
        raise InvalidSetting(f"{path}: {error.strerror}") from error


def _executors(tables: dict[str, Any], path: Path) -> ExecutorSettings:
    where = f"{path}: [executors"
    check_names(tables, ExecutorSettings.__struct_fields__, where=f"{where}]", what="table")
    return ExecutorSettings(
        aider=_aider(table(AiderSettings, tables, "aider", where=f"{where}.aider]"), path),
        command=_command(table(CommandSettings, tables, "command", where=f"{where}.command]"), path),
        http=table(HttpSettings, tables, "http", where=f"{where}.http]"),
        python=_python(table(PythonSettings, tables, "python", where=f"{where}.python]"), path.parent),
    )


def _command(settings: CommandSettings, path: Path) -> CommandSettings:
    """Return the settings; raise InvalidSetting for an entry that could never match."""
    for entry in settings.allow or ():
        _check_executable(entry, f"{path}: [executors.command] allow")
    for entry in settings.environment:
        if not entry.removesuffix("*").isidentifier():
            message = f"{entry!r} is not the name of a variable, such as CI or NODE_*"
            raise InvalidSetting(f"{path}: [executors.command] environment: {message}")
    return settings


def _aider(settings: AiderSettings, path: Path) -> AiderSettings:
    if settings.program is not None:
        _check_executable(settings.program, f"{path}: [executors.aider] program")
    return settings


def _check_executable(name: str, where: str) -> None:
    """Raise InvalidSetting for a path relative to the working folder."""
    if not name or ("/" in name and not name.startswith("/")):
        raise InvalidSetting(f"{where}: {name!r} must be the name of an executable or an absolute path")


def _python(settings: PythonSettings, folder: Path) -> PythonSettings:
    """Return the settings with an absolute `path`; if it is empty, it becomes the project's folder."""
    for module in settings.modules:
        module_name(module, where="[executors.python] modules")
    folders = settings.path or (".",)
    return structs.replace(settings, path=_resolve_paths(folders, folder))


def _tools(settings: ToolsSettings, folder: Path) -> ToolsSettings:
    """Return the settings with paths resolved against `folder`: that of weft.toml, or the working folder."""
    for module in settings.modules:
        module_name(module, where="[tools] modules")
    if not settings.roots:
        raise InvalidSetting(
            f"{folder / 'weft.toml'}: [tools] roots: name at least one folder, or leave the setting out "
            "to use the folder of weft.toml"
        )
    (mcp,) = _resolve_paths((settings.mcp,), folder)
    return structs.replace(settings, roots=_resolve_paths(settings.roots, folder), mcp=mcp)


def _memory(settings: MemorySettings, path: Path) -> MemorySettings:
    """Return the settings with absolute roots."""
    if settings.embeddings is not None and not settings.embeddings.startswith("local:"):
        raise InvalidSetting(
            f"{path}: [memory] embeddings: {settings.embeddings!r} is not an embedded model "
            "such as local:minilm"
        )
    return structs.replace(settings, roots=_resolve_paths(settings.roots, path.parent))


def missing_paths(settings: ToolsSettings, folder: Path) -> list[str]:
    """Return messages about missing paths of `[tools]`, except for the default `.mcp.json` in `folder`."""
    missing = [
        f"[tools] roots: there is no folder {root}" for root in settings.roots if not Path(root).is_dir()
    ]
    usual = _tools(ToolsSettings(), folder).mcp
    if settings.mcp != usual and not Path(settings.mcp).is_file():
        missing.append(f"[tools] mcp: there is no file {settings.mcp}")
    return missing


def _secrets(settings: SecretSettings, path: Path) -> SecretSettings:
    for name in settings.allow:
        if not _VARIABLE.fullmatch(name):
            raise InvalidSetting(f"{path}: [secrets] allow: {name!r} is not the name of a variable")
    return settings


def _resolve_paths(paths: tuple[str, ...], folder: Path) -> tuple[str, ...]:
    for part in paths:
        if "\0" in part:
            raise InvalidSetting(
                f"{folder / PROJECT_FILE}: {part!r} is not a path: it contains a NUL character"
            )
    return tuple(str((folder / part).resolve()) for part in paths)


STORE_FILE = "weft.db"
INDEX_FILE = "index.db"

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")

_SYNCHRONOUS = {"normal": "NORMAL", "full": "FULL"}


class Settings(ProjectSettings, frozen=True, kw_only=True):
    """The settings of a process: those of `weft.toml`, with what arguments and the environment add."""

    db: str
    """Path of a SQLite file, a `postgresql://` URL, or `:memory:` for a store that ends with the process."""
    user_id: str | None = None
    """User to act for; None: the operator of the store, who sees the tasks of all owners."""
    sqlite_synchronous: str = "NORMAL"
    """With NORMAL, commits survive a crash of the process; with FULL, also a loss of power."""
    lease_seconds: float = 15.0
    """How long a worker's lease lasts without renewal; with SQLite it lasts four times as long."""
    folder: Path | None = None
    """The folder that `weft.toml` was searched from; None: the settings are not those of a folder."""
    stamp: tuple[object, ...] = ()
    """Identifies the `weft.toml` that was read, and its version."""

    def apply_to(self, folder: Path | str | None) -> bool:
        """Return whether these are still the settings of a folder (None: of the folder they were read from).

        A worker runs for months, and programs in many folders: it reads what was changed meanwhile.
        """
        return folder in (None, str(self.folder)) and self.stamp == (self.folder and _stamp(self.folder))


def load_settings(
    *,
    db: str | None = None,
    user_id: str | None = None,
    environment: Mapping[str, str] = os.environ,
    folder: Path | None = None,
) -> Settings:
    """Return the settings: arguments win over `WEFT_*` variables, those over `weft.toml` and defaults."""
    folder = folder or working_folder()
    synchronous = environment.get("WEFT_SQLITE_SYNCHRONOUS", "normal").lower()
    if synchronous not in _SYNCHRONOUS:
        raise InvalidSetting(f"WEFT_SQLITE_SYNCHRONOUS is {synchronous!r}; it must be normal or full")
    stamp = _stamp(folder)  # before the file is read: a later change must not go unnoticed
    project = read_project(folder)
    model = _option_or_variable(None, "", "WEFT_MODEL", environment)
    if model is not None:
        project = structs.replace(project, models=structs.replace(project.models, default=model))
    return Settings(
        **structs.asdict(project),
        db=_store_location(_option_or_variable(db, "--db", "WEFT_DB", environment), folder),
        user_id=_option_or_variable(user_id, "--user", "WEFT_USER", environment),
        sqlite_synchronous=_SYNCHRONOUS[synchronous],
        lease_seconds=_read_seconds("WEFT_LEASE_SECONDS", environment, default=15.0),
        folder=folder,
        stamp=stamp,
    )


def working_folder() -> Path:
    """Return the working folder of the process; raise InvalidSetting if it was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise InvalidSetting("the working folder does not exist any more") from None


def _option_or_variable(
    value: str | None, option: str, variable: str, environment: Mapping[str, str]
) -> str | None:
    """Return the value of an option, else of an environment variable; None if neither is set.

    An empty value is refused: `--user "$UNSET"` must not turn somebody into the operator.
    """
    source = option if value is not None else variable
    found = value if value is not None else environment.get(variable)
    if found is not None and (not found.strip() or not found.isprintable()):
        raise InvalidSetting(f"{source} is empty or has unprintable characters")
    return found


def _store_location(given: str | None, folder: Path) -> str:
    if given is None:
        return str(default_store(folder))
    if _URL.match(given) and not is_postgresql(given):
        # The value is not shown: it may contain a password.
        raise InvalidSetting("--db or WEFT_DB is not a path, a postgresql:// URL or :memory:")
    return given


def _read_seconds(name: str, environment: Mapping[str, str], *, default: float) -> float:
    text = environment.get(name)
    if not text:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 86_400:
        raise InvalidSetting(f"{name} is {text!r}; it must be a number of seconds from 0.1 to 86400")
    return seconds


def default_store(folder: Path) -> Path:
    """Return `.weft/weft.db` of the nearest folder upwards that has it or an index, or of this folder."""
    for candidate in (folder, *folder.parents):
        file = candidate / STORE_FOLDER / STORE_FILE
        if _is_own(file) or _is_own(file.with_name(INDEX_FILE)):
            return file
    return folder / STORE_FOLDER / STORE_FILE


def _is_own(file: Path) -> bool:
    """Return whether the file exists and is this user's; another user's `/tmp/.weft` is not a project."""
    try:
        return file.stat().st_uid == os.getuid()
    except OSError:
        return False


def is_postgresql(db: str) -> bool:
    return db.startswith(("postgresql://", "postgres://"))


def is_memory(db: str) -> bool:
    """Return whether the store is in memory; `:memory:NAME` is shared within the process."""
    return db.startswith(":memory:")


def shown_location(db: str) -> str:
    """Return the location of a store without its password, for messages."""
    if not is_postgresql(db):
        return db
    try:
        parts = urlsplit(db)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "postgresql://"
    if "@" in parts.path:  # a slash in the password: the apparent path is the end of the password
        return f"{parts.scheme}://"
    return f"{parts.scheme}://{host}{port}{parts.path}"
