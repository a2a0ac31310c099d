"""Where things are and how weft behaves: from arguments, the environment, `weft.toml`, then defaults."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct, field, structs

from weft.cache_folder import STORE_FOLDER
from weft.executor_settings import ExecutorSettings
from weft.model_settings import ModelsSettings, ToolsSettings
from weft.project_file import InvalidSetting, read_project
from weft.secrets.references import SecretSettings

__all__ = [
    "InvalidSetting",
    "Settings",
    "default_store",
    "is_memory",
    "is_postgresql",
    "load_settings",
    "shown_location",
]

STORE_FILE = "weft.db"

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")

_SYNCHRONOUS = {"normal": "NORMAL", "full": "FULL"}


class Settings(Struct, frozen=True, kw_only=True):
    """What `App.open` needs to know."""

    db: str
    """A path of a SQLite file, a `postgresql://` URL, or `:memory:`: a store that ends with its process."""
    user_id: str | None = None
    """On whose behalf to act; None: as the operator of the store, who sees every owner's tasks."""
    sqlite_synchronous: str = "NORMAL"
    """NORMAL keeps every commit through a crash of the process, FULL through a loss of power too."""
    away_seconds: float = 60.0
    """How long calls of a store that is away are tried again before they fail."""
    is_shared: bool = False
    """Whether the group of the store's file may use it: `[store] shared`."""
    lease_seconds: float = 15.0
    """How long an engine process that says nothing is taken to be alive."""
    executors: ExecutorSettings = field(default_factory=ExecutorSettings)
    """What the built-in executors may do."""
    models: ModelsSettings = field(default_factory=ModelsSettings)
    """Which models there are, and how they are asked."""
    tools: ToolsSettings = field(default_factory=ToolsSettings)
    """What tools there are, and what they may reach."""
    secrets: SecretSettings = field(default_factory=SecretSettings)
    """Which secrets task records may name."""


def load_settings(
    *,
    db: str | None = None,
    user_id: str | None = None,
    environment: Mapping[str, str] = os.environ,
    folder: Path | None = None,
) -> Settings:
    """The settings in force: arguments win over `WEFT_*` variables, those over `weft.toml` and defaults."""
    folder = folder or working_folder()
    synchronous = environment.get("WEFT_SQLITE_SYNCHRONOUS", "normal").lower()
    if synchronous not in _SYNCHRONOUS:
        raise InvalidSetting(f"WEFT_SQLITE_SYNCHRONOUS is {synchronous!r}; it can be normal or full")
    project = read_project(folder)
    model = _given(None, "", "WEFT_MODEL", environment)
    return Settings(
        db=_location(_given(db, "--db", "WEFT_DB", environment), folder),
        user_id=_given(user_id, "--user", "WEFT_USER", environment),
        sqlite_synchronous=_SYNCHRONOUS[synchronous],
        away_seconds=project.store.away_seconds,
        is_shared=project.store.shared,
        lease_seconds=_seconds("WEFT_LEASE_SECONDS", environment, default=15.0),
        executors=project.executors,
        models=project.models if model is None else structs.replace(project.models, default=model),
        tools=project.tools,
        secrets=project.secrets,
    )


def working_folder() -> Path:
    """The folder the process is in; raises InvalidSetting when it is gone."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise InvalidSetting("the working folder does not exist any more") from None


def _given(value: str | None, option: str, variable: str, environment: Mapping[str, str]) -> str | None:
    """What an option or a variable says; None when neither is there.

    An empty value is refused: `--user "$UNSET"` must not make somebody the operator.
    """
    source = option if value is not None else variable
    found = value if value is not None else environment.get(variable)
    if found is not None and (not found.strip() or not found.isprintable()):
        raise InvalidSetting(f"{source} is empty or has characters that cannot be printed")
    return found


def _location(given: str | None, folder: Path) -> str:
    if given is None:
        return str(default_store(folder))
    if _URL.match(given) and not is_postgresql(given):
        # Not repeated: it may hold a password.
        raise InvalidSetting("--db or WEFT_DB is not a path, a postgresql:// URL or :memory:")
    return given


def _seconds(name: str, environment: Mapping[str, str], *, default: float) -> float:
    text = environment.get(name)
    if not text:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 86_400:
        raise InvalidSetting(f"{name} is {text!r}; it can be a number of seconds from 0.1 to 86400")
    return seconds


def default_store(folder: Path) -> Path:
    """`.weft/weft.db` of the nearest folder upwards that has one, else of this folder."""
    for candidate in (folder, *folder.parents):
        file = candidate / STORE_FOLDER / STORE_FILE
        if _is_own(file):
            return file
    return folder / STORE_FOLDER / STORE_FILE


def _is_own(file: Path) -> bool:
    """Whether the file is there and ours: a stranger's `/tmp/.weft` is nobody's project."""
    try:
        return file.stat().st_uid == os.getuid()
    except OSError:
        return False


def is_postgresql(db: str) -> bool:
    """Whether the location names a PostgreSQL database."""
    return db.startswith(("postgresql://", "postgres://"))


def is_memory(db: str) -> bool:
    """Whether it is in memory: `:memory:` is a store of its own, `:memory:NAME` is shared in the process."""
    return db.startswith(":memory:")


def shown_location(db: str) -> str:
    """The location without a password, for messages."""
    if not is_postgresql(db):
        return db
    try:
        parts = urlsplit(db)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "postgresql://"
    if "@" in parts.path:  # a slash in the password: what looks like the path is the rest of it
        return f"{parts.scheme}://"
    return f"{parts.scheme}://{host}{port}{parts.path}"
