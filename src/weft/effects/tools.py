"""Tools and executors of a project, and tools that call executors."""

import logging
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs

from weft.config.sections import CommandSettings, ExecutorSettings, ModelsSettings, ToolsSettings
from weft.config.settings import ProjectSettings
from weft.effects.scripts import run_program, step_work
from weft.errors import text_of
from weft.evaluator.tools import Tool, ToolContext, ToolDefinition, ToolFailed
from weft.executors.builtin import default_registry
from weft.executors.invoke import invoke_executor
from weft.executors.protocol import ExecutionFailed, Executor
from weft.executors.registry import ExecutorRegistry, UnknownExecutor
from weft.integrations.aider.executor import Aider
from weft.tools.system import RunScript
from weft.tools.toolbox import Toolbox, open_toolbox

log = logging.getLogger(__name__)


def project_registry(settings: ProjectSettings) -> ExecutorRegistry:
    """Return the built-in executors, those registered with `@executor`, and the plug-ins."""
    executors, tools = settings.executors, settings.tools
    # Logged as a warning, so that the user sees a large installation of aider.
    aider = Aider(executors, tools.roots, settings.models, say=log.warning, kept_files=[Path(tools.mcp).name])
    return default_registry(executors, more=(aider,), roots=tools.roots)


PREFIX = "executor:"

MAX_OUTPUT_BYTES = 1024 * 1024
"""Most bytes kept of a script's stdout, and of its stderr, for a model."""


class ExecutorTool:
    """A tool that calls an executor: the arguments are its inputs, its result is the tool's."""

    has_effects = True
    """Whether the executor has effects is unknown, so results are not reused."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.definition = ToolDefinition(
            name=f"{PREFIX}{executor.id}",
            description=executor.summary or f"Runs the executor {executor.id}.",
            input_schema=executor.input_schema or {"type": "object"},
        )

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        try:
            return await invoke_executor(
                self._executor, step_work(context.template or self._executor.id, arguments)
            )
        except (Exception, SystemExit) as error:
            message = error.message if isinstance(error, ExecutionFailed) else text_of(error)
            raise ToolFailed(message) from error


class MissingExecutor:
    """A tool for an unknown executor in `[tools] executors`; every call fails with the reason."""

    has_effects = True

    def __init__(self, executor_id: str, reason: str) -> None:
        self.error = reason
        self.definition = ToolDefinition(
            name=f"{PREFIX}{executor_id}", description=reason, input_schema={"type": "object"}
        )

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        raise ToolFailed(self.error)


def executor_tools(names: tuple[str, ...], registry: ExecutorRegistry) -> Iterator[tuple[Tool, str]]:
    """Yield the named executors as tools, each with its source."""
    for name in names:
        try:
            executor = registry.get(name)
        except UnknownExecutor as error:
            yield MissingExecutor(name, error.message), "[tools] executors"
        else:
            yield ExecutorTool(executor), "executor"


def script_runner(settings: CommandSettings, folder: Path) -> RunScript:
    """Return a function that runs scripts in a folder with the settings of the `command` executor."""
    return partial(run_program, settings=settings, cwd=str(folder), max_output_bytes=MAX_OUTPUT_BYTES)


def open_project_tools(
    settings: ToolsSettings,
    folder: Path,
    environment: Mapping[str, str],
    executors: ExecutorSettings | None = None,
    models: ModelsSettings | None = None,
) -> Toolbox:
    """Open all tools of a project, including its executors and scripts."""
    executors = executors or ExecutorSettings()
    project = ProjectSettings(
        executors=executors,
        models=models or ModelsSettings(),
        tools=structs.replace(settings, roots=tuple(str(folder / root) for root in settings.roots)),
    )
    registry = project_registry(project) if settings.executors else ExecutorRegistry()
    return open_toolbox(
        settings,
        folder,
        environment,
        run_script=script_runner(executors.command, folder / settings.roots[0]),
        extra=executor_tools(settings.executors, registry),
        functions=executors.python,
    )
