"""Modules that are imported for their `@weft.tool` functions: `[tools] modules`."""

import importlib
import logging
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from weft.errors import text_of

log = logging.getLogger(__name__)


class ToolModules:
    """Imports modules once, when they are first needed; keeps why one could not be."""

    def __init__(self, names: Sequence[str], folder: Path) -> None:
        self._names = names
        self._folder = str(folder)
        self._failures: dict[str, str] = {}
        self._is_loaded = not names
        self._lock = threading.Lock()  # names are asked for in the event loop, tools found beside it

    @property
    def is_loaded(self) -> bool:
        """Whether there is nothing left to import."""
        return self._is_loaded

    def load(self) -> Mapping[str, str]:
        """Import them, unless that is done; the modules that could not be, and why."""
        with self._lock:
            if not self._is_loaded:
                if self._folder not in sys.path:
                    sys.path.append(
                        self._folder
                    )  # Last: a project's file never takes the place of a library.
                for name in self._names:
                    self._import(name)
                self._is_loaded = True
        return self._failures

    def _import(self, name: str) -> None:
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:
            # SystemExit: a module that calls sys.exit() is a module that cannot be imported.
            self._failures[name] = text_of(error)
            log.warning(
                "tools of module %s are not there: %s",
                name,
                text_of(error),
                extra={"action": "tool_module_failed", "tool_module": name},
            )
