"""weft runs the work language models do, as durable tasks."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.app import App as App
    from weft.engine.limits import EngineLimits as EngineLimits
    from weft.executors.registry import executor as executor
    from weft.sync import SyncApp as SyncApp
    from weft.sync import open_app as open  # noqa: A004 - `weft.open(...)` reads well, and nobody imports it bare

__version__ = "0.1.0"

__all__ = ["App", "EngineLimits", "SyncApp", "executor", "open"]

_PLACES = {
    "App": ("weft.app", "App"),
    "EngineLimits": ("weft.engine.limits", "EngineLimits"),
    "SyncApp": ("weft.sync", "SyncApp"),
    "executor": ("weft.executors.registry", "executor"),
    "open": ("weft.sync", "open_app"),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `weft --help` does not pay for all of them."""
    if name not in _PLACES:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)
