"""`weft.toml`: a project's settings, in the nearest folder upwards that has the file."""

import re
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from weft.executor_settings import (
    AiderSettings,
    CommandSettings,
    ExecutorSettings,
    HttpSettings,
    PythonSettings,
)
from weft.memory_settings import MemorySettings
from weft.model_settings import ModelsSettings, ToolsSettings
from weft.project_tables import InvalidSetting, check_names, module_name, table, tables_of
from weft.secrets.references import SecretSettings

__all__ = [
    "InvalidSetting",
    "ProjectSettings",
    "base_folder",
    "find_project_file",
    "missing_paths",
    "read_project",
]

PROJECT_FILE = "weft.toml"

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class StoreSettings(Struct, frozen=True, kw_only=True):
    """`[store]`."""

    shared: bool = False
    """Whether the group of a SQLite store's file may use it; else this user alone."""
    away_seconds: Annotated[float, Meta(ge=0.0, le=86_400.0)] = 60.0
    """How long calls of a store that is away are tried again."""


class ProjectSettings(Struct, frozen=True, kw_only=True):
    """Everything that a `weft.toml` can say."""

    executors: ExecutorSettings = field(default_factory=ExecutorSettings)
    models: ModelsSettings = field(default_factory=ModelsSettings)
    tools: ToolsSettings = field(default_factory=ToolsSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    secrets: SecretSettings = field(default_factory=SecretSettings)
    store: StoreSettings = field(default_factory=StoreSettings)


def find_project_file(folder: Path) -> Path | None:
    """The `weft.toml` of this folder or of the nearest one above it."""
    for candidate in (folder, *folder.parents):
        if (candidate / PROJECT_FILE).is_file():
            return candidate / PROJECT_FILE
    return None


def read_project(folder: Path) -> ProjectSettings:
    """What the project's `weft.toml` says; the defaults when there is no such file."""
    path = find_project_file(folder)
    if path is None:
        return ProjectSettings(tools=_tools(ToolsSettings(), folder))
    # Imported here: what reads it is needed only where there is a file.
    from weft.project_models import read_models

    document = _document(path)
    check_names(document, ProjectSettings.__struct_fields__, where=str(path), what="table")
    return ProjectSettings(
        executors=_executors(tables_of(document, "executors", path), path),
        models=read_models(tables_of(document, "models", path), path),
        tools=_tools(table(ToolsSettings, document, "tools", where=f"{path}: [tools]"), path.parent),
        memory=_memory(table(MemorySettings, document, "memory", where=f"{path}: [memory]"), path),
        secrets=_secrets(table(SecretSettings, document, "secrets", where=f"{path}: [secrets]"), path),
        store=table(StoreSettings, document, "store", where=f"{path}: [store]"),
    )


def project_folder(start: Path) -> Path:
    """Return the folder of the `weft.toml` that applies; without one, the folder itself."""
    file = find_project_file(start)
    return (start if file is None else file.parent).absolute()


def base_folder(project: ProjectSettings) -> Path:
    """The folder that relative paths of tools, tasks and answers begin at: the first root of `[tools]`."""
    return Path(next(iter(project.tools.roots), ".")).absolute()


def _document(path: Path) -> dict[str, Any]:
    # Imported here: most projects have no such file, and every command would pay for it.
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
    """The settings as they are; an entry that could never match is an error, not a silent refusal."""
    for entry in settings.allow or ():
        if not entry or ("/" in entry and not entry.startswith("/")):
            raise InvalidSetting(
                f"{path}: [executors.command] allow: {entry!r} must be a program's name or an absolute path"
            )
    for entry in settings.environment:
        if not entry.removesuffix("*").isidentifier():
            message = f"{entry!r} is not the name of a variable, such as CI or NODE_*"
            raise InvalidSetting(f"{path}: [executors.command] environment: {message}")
    return settings


def _aider(settings: AiderSettings, path: Path) -> AiderSettings:
    """The settings as they are; a relative path would mean another program in every folder."""
    program = settings.program
    if program is not None and (not program or ("/" in program and not program.startswith("/"))):
        raise InvalidSetting(
            f"{path}: [executors.aider] program: {program!r} must be a program's name or an absolute path"
        )
    return settings


def _python(settings: PythonSettings, folder: Path) -> PythonSettings:
    """The settings with the folders made absolute; without any, the project's own folder."""
    for module in settings.modules:
        module_name(module, where="[executors.python] modules")
    folders = settings.path or (".",)
    return msgspec.structs.replace(settings, path=_absolute(folders, folder))


def _tools(settings: ToolsSettings, folder: Path) -> ToolsSettings:
    """The settings with the paths made absolute: they are relative to the file, or to the working folder."""
    for module in settings.modules:
        module_name(module, where="[tools] modules")
    (mcp,) = _absolute((settings.mcp,), folder)
    return msgspec.structs.replace(settings, roots=_absolute(settings.roots, folder), mcp=mcp)


def _memory(settings: MemorySettings, path: Path) -> MemorySettings:
    """The settings of a file with the roots made absolute."""
    if settings.embeddings is not None and not settings.embeddings.startswith("local:"):
        raise InvalidSetting(
            f"{path}: [memory] embeddings: {settings.embeddings!r} is no embedded model, as local:minilm is"
        )
    return msgspec.structs.replace(settings, roots=_absolute(settings.roots, path.parent))


def missing_paths(settings: ToolsSettings, folder: Path) -> list[str]:
    """What `[tools]` names and is not there, in words; nobody needs to have the usual MCP file."""
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


def _absolute(paths: tuple[str, ...], folder: Path) -> tuple[str, ...]:
    for part in paths:
        if "\0" in part:
            raise InvalidSetting(f"{folder / PROJECT_FILE}: {part!r} is no path: it has a NUL character")
    return tuple(str((folder / part).resolve()) for part in paths)
