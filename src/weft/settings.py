"""Where things are and how weft behaves: from arguments, the environment, `weft.toml`, then defaults."""

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct, field

from weft.executor_settings import ExecutorSettings
from weft.project_file import InvalidSetting, read_executor_settings

__all__ = ["InvalidSetting", "Settings", "default_store", "is_postgresql", "load_settings", "shown_location"]

STORE_FOLDER = ".weft"
STORE_FILE = "weft.db"

_SYNCHRONOUS = {"normal": "NORMAL", "full": "FULL"}


class Settings(Struct, frozen=True, kw_only=True):
    """What `App.open` needs to know."""

    db: str
    """A path of a SQLite file, or a `postgresql://` URL."""
    user_id: str | None = None
    """On whose behalf to act; None: as the operator of the store, who sees every owner's tasks."""
    sqlite_synchronous: str = "NORMAL"
    """NORMAL keeps every commit through a crash of the process, FULL through a loss of power too."""
    lease_seconds: float = 15.0
    """How long an engine process that says nothing is taken to be alive."""
    executors: ExecutorSettings = field(default_factory=ExecutorSettings)
    """What the built-in executors may do."""


def load_settings(
    *,
    db: str | None = None,
    user_id: str | None = None,
    environment: Mapping[str, str] = os.environ,
    folder: Path | None = None,
) -> Settings:
    """The settings in force: arguments win over `WEFT_*` variables, those over `weft.toml` and defaults."""
    folder = folder or Path.cwd()
    synchronous = environment.get("WEFT_SQLITE_SYNCHRONOUS", "normal").lower()
    if synchronous not in _SYNCHRONOUS:
        raise InvalidSetting(f"WEFT_SQLITE_SYNCHRONOUS is {synchronous!r}; it can be normal or full")
    return Settings(
        db=db or environment.get("WEFT_DB") or str(default_store(folder)),
        user_id=user_id or environment.get("WEFT_USER") or None,
        sqlite_synchronous=_SYNCHRONOUS[synchronous],
        lease_seconds=_seconds("WEFT_LEASE_SECONDS", environment, default=15.0),
        executors=read_executor_settings(folder),
    )


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
        if (candidate / STORE_FOLDER / STORE_FILE).is_file():
            return candidate / STORE_FOLDER / STORE_FILE
    return folder / STORE_FOLDER / STORE_FILE


def is_postgresql(db: str) -> bool:
    """Whether the location names a PostgreSQL database."""
    return db.startswith(("postgresql://", "postgres://"))


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
    return f"{parts.scheme}://{host}{port}{parts.path}"
