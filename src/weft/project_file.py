"""`weft.toml`: a project's settings, in the nearest folder upwards that has the file."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from weft.errors import RequestError
from weft.executor_settings import CommandSettings, ExecutorSettings, HttpSettings, PythonSettings
from weft.secrets.references import SecretSettings

PROJECT_FILE = "weft.toml"

TABLES = ("executors", "secrets")
"""What `weft.toml` may hold."""

T = TypeVar("T", bound=Struct)

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class InvalidSetting(RequestError):
    """A setting has a value that weft does not know."""

    code = "invalid-setting"


def find_project_file(folder: Path) -> Path | None:
    """The `weft.toml` of this folder or of the nearest one above it."""
    for candidate in (folder, *folder.parents):
        if (candidate / PROJECT_FILE).is_file():
            return candidate / PROJECT_FILE
    return None


def read_executor_settings(folder: Path) -> ExecutorSettings:
    """What the project's `weft.toml` says about executors; the defaults when there is no such file."""
    path = find_project_file(folder)
    if path is None:
        return ExecutorSettings()
    document = _document(path)
    tables = document.get("executors", {})
    if not isinstance(tables, dict):
        raise InvalidSetting(f"{path}: executors must be a table")
    _check_names(tables, ExecutorSettings.__struct_fields__, where=f"{path}: [executors]", what="table")
    return ExecutorSettings(
        command=_command(_table(CommandSettings, tables, "command", path), path),
        http=_table(HttpSettings, tables, "http", path),
        python=_python(_table(PythonSettings, tables, "python", path), path.parent),
    )


def read_secret_settings(folder: Path) -> SecretSettings:
    """What the project's `weft.toml` says about secrets; no task may name one when there is no such file."""
    path = find_project_file(folder)
    if path is None:
        return SecretSettings()
    settings = _table(SecretSettings, _document(path), "secrets", path, prefix="")
    for name in settings.allow:
        if not _VARIABLE.fullmatch(name):
            raise InvalidSetting(f"{path}: [secrets] allow: {name!r} is not the name of a variable")
    return settings


def _document(path: Path) -> dict[str, Any]:
    # Imported here: most projects have no such file, and every command would pay for it.
    import tomllib

    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"{path}: not TOML: {error}") from error
    except OSError as error:
        raise InvalidSetting(f"{path}: {error.strerror}") from error
    _check_names(document, TABLES, where=str(path), what="table")
    return document


def _table(kind: type[T], tables: dict[str, Any], name: str, path: Path, *, prefix: str = "executors.") -> T:
    table = tables.get(name, {})
    where = f"{path}: [{prefix}{name}]"
    if not isinstance(table, dict):
        raise InvalidSetting(f"{where} must be a table")
    _check_names(table, kind.__struct_fields__, where=where, what="setting")
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise InvalidSetting(f"{where}: {error}") from error


def _check_names(names: Iterable[str], known: Iterable[str], *, where: str, what: str) -> None:
    known = list(known)
    for name in names:
        if name not in known:
            # Imported here: only a mistake needs it, and it is slow to import.
            from difflib import get_close_matches

            close = get_close_matches(name, known, n=1)
            hint = f"; did you mean '{close[0]}'?" if close else f" (known: {', '.join(known)})"
            raise InvalidSetting(f"{where}: unknown {what} '{name}'{hint}")


def _command(settings: CommandSettings, path: Path) -> CommandSettings:
    """The settings as they are; an entry that could never match is an error, not a silent refusal."""
    for entry in settings.allow or ():
        if not entry or ("/" in entry and not entry.startswith("/")):
            raise InvalidSetting(
                f"{path}: [executors.command] allow: {entry!r} must be a program's name or an absolute path"
            )
    return settings


def _python(settings: PythonSettings, folder: Path) -> PythonSettings:
    """The settings with the folders made absolute; without any, the project's own folder."""
    for module in settings.modules:
        if not all(part.isidentifier() for part in module.split(".")):
            raise InvalidSetting(f"[executors.python] modules: {module!r} is not the name of a module")
    folders = settings.path or (".",)
    return msgspec.structs.replace(settings, path=tuple(str((folder / part).resolve()) for part in folders))
