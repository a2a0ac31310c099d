"""What tools get from executors: `executor:NAME`, and the program that `system:run_script` runs."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from weft.errors import text_of
from weft.evaluator.effects import ScriptOutcome, ScriptRun
from weft.evaluator.tools import Tool, ToolContext, ToolDefinition, ToolFailed
from weft.executor_settings import CommandSettings, ExecutorSettings
from weft.executors.performing import perform
from weft.executors.protocol import ExecutionFailed, Executor
from weft.executors.registry import ExecutorRegistry, UnknownExecutor
from weft.executors.watchdog import watchdog
from weft.model_settings import ModelsSettings, ToolsSettings
from weft.project_executors import project_registry
from weft.project_file import ProjectSettings
from weft.script_runs import run_program, step_work
from weft.tools.system_scripts import RunScript
from weft.tools.toolbox import Toolbox, open_toolbox

PREFIX = "executor:"

MAX_OUTPUT_BYTES = 1024 * 1024
"""How much of a program's stdout, and of stderr, is kept for a model."""


class ExecutorTool:
    """An executor that is called as a tool: its inputs are the arguments, its result is what it gives."""

    has_effects = True
    """Nobody can tell; so its results are not reused."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.definition = ToolDefinition(
            name=f"{PREFIX}{executor.id}",
            description=executor.summary or f"Runs the executor {executor.id}.",
            input_schema=executor.input_schema or {"type": "object"},
        )

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """The result of one attempt."""
        try:
            return await perform(self._executor, step_work(context.template or self._executor.id, arguments))
        except ExecutionFailed as error:
            raise ToolFailed(error.message) from error
        except (Exception, SystemExit) as error:
            raise ToolFailed(text_of(error)) from error


class MissingExecutor:
    """An executor that `[tools] executors` names and that is not there: who asks for it is told."""

    has_effects = True

    def __init__(self, executor_id: str, reason: str) -> None:
        self.error = reason
        self.definition = ToolDefinition(
            name=f"{PREFIX}{executor_id}", description=reason, input_schema={"type": "object"}
        )

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        raise ToolFailed(self.error)


def executor_tools(names: tuple[str, ...], registry: ExecutorRegistry) -> Iterator[tuple[Tool, str]]:
    """The executors of those names as tools, each with where it is from."""
    for name in names:
        try:
            executor = registry.get(name)
        except UnknownExecutor as error:
            yield MissingExecutor(name, error.message), "[tools] executors"
        else:
            yield ExecutorTool(executor), "executor"


def script_runner(settings: CommandSettings, folder: Path) -> RunScript:
    """Runs programs in a folder, under the settings of the `command` executor."""

    async def run_script(run: ScriptRun) -> ScriptOutcome:
        return await run_program(run, settings, cwd=str(folder), max_output_bytes=MAX_OUTPUT_BYTES)

    return run_script


def open_project_tools(
    settings: ToolsSettings,
    folder: Path,
    environment: Mapping[str, str],
    executors: ExecutorSettings | None = None,
    models: ModelsSettings | None = None,
) -> Toolbox:
    """All the tools of a project, with its executors and programs."""
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
        guard=watchdog,
        functions=executors.python,
    )
