"""All the executors that a project has: those of the room, and those that are made of several rooms."""

import logging
from pathlib import Path
from typing import Protocol

from weft.aider.executor import Aider
from weft.executor_settings import ExecutorSettings
from weft.executors.built_in import default_registry
from weft.executors.registry import ExecutorRegistry
from weft.model_settings import ModelsSettings, ToolsSettings

log = logging.getLogger(__name__)


class HasSettings(Protocol):
    """What `weft.toml` says of executors and of what they reach: `Settings`, `ProjectSettings`."""

    @property
    def executors(self) -> ExecutorSettings: ...

    @property
    def models(self) -> ModelsSettings: ...

    @property
    def tools(self) -> ToolsSettings: ...


def project_registry(settings: HasSettings) -> ExecutorRegistry:
    """The executors that come with weft, those that `@executor` registered, and the plug-ins."""
    return default_registry(settings.executors, more=(project_aider(settings),), roots=settings.tools.roots)


def project_aider(settings: HasSettings) -> Aider:
    """aider in the folders that tools may reach, with the project's models."""
    # A warning: an installation of this size is for a person to hear of, and those are shown.
    tools = settings.tools
    return Aider(
        settings.executors, tools.roots, settings.models, say=log.warning, kept_files=[Path(tools.mcp).name]
    )
