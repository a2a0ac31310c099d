"""Effects for programs that run here and now, without a store: scripts are run, nothing is kept."""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn

from weft.evaluator.effects import ContextQuery, ModelCall, ScriptOutcome, ScriptRun, Step, ToolCall
from weft.evaluator.errors import TaskFailed
from weft.evaluator.purse import UNLIMITED, Purse
from weft.evaluator.results import TaskFailure, TaskFailureReason, TaskResult
from weft.executor_settings import CommandSettings
from weft.executors.command import Command
from weft.executors.protocol import ExecutionFailed, Work
from weft.ids import new_task_id
from weft.limits import MAX_PROGRAM_CHARACTERS
from weft.project_file import read_executor_settings
from weft.settings import working_folder
from weft.tasks.record import Status, Task

log = logging.getLogger(__name__)


class LocalEffects:
    """Runs scripts as the `command` executor does, under the project's `[executors.command]`.

    There are no models, tools or memory yet: asking for one fails the task.
    """

    def __init__(
        self, *, commands: CommandSettings | None = None, log_message: Callable[[str], None] = log.info
    ) -> None:
        self._commands = commands
        self._log_message = log_message

    async def call_model(self, step: Step, call: ModelCall, purse: Purse = UNLIMITED) -> TaskResult:
        """Fails."""
        _refuse("configuration_error", "no model is configured: models come with a later version")

    async def run_script(self, step: Step, run: ScriptRun) -> ScriptOutcome:
        """How the program ended; fails when it may not run, or cannot be started."""
        if self._commands is None:
            self._commands = read_executor_settings(working_folder()).command
        try:
            result = await Command(self._commands).execute(_work(run))
        except ExecutionFailed as error:
            if "exit_code" not in error.details:
                _refuse("configuration_error", error.message)
            result = error.details
        exit_code = result["exit_code"]
        return ScriptOutcome(
            result["stdout"],
            result["stderr"],
            -1 if exit_code is None else exit_code,
            is_timed_out=exit_code is None,
        )

    async def call_tool(self, step: Step, call: ToolCall) -> Any:
        """Fails."""
        _refuse("configuration_error", f"there is no tool '{call.tool}': tools come with a later version")

    async def get_context(self, step: Step, query: ContextQuery) -> dict[str, Any]:
        """Fails."""
        _refuse("configuration_error", "no memory is configured: memory comes with a later version")

    async def around(self, step: Step, body: Callable[[], Awaitable[TaskResult]]) -> TaskResult:
        """The result of the body."""
        return await body()

    def log(self, message: str) -> None:
        """Pass the message on; to the log of this module unless it was said otherwise."""
        self._log_message(message)

    def tools(self) -> frozenset[str] | None:
        """None can be called, but which there will be cannot be said."""
        return None

    def schema_text(self, path: str, source: str) -> str:
        """The text of a schema file, whose path is relative to the file of the program."""
        with (Path(source).parent / path).open(encoding="utf-8") as file:
            return file.read(MAX_PROGRAM_CHARACTERS)


def _work(run: ScriptRun) -> Work:
    """The run as an attempt at a task that is stored nowhere."""
    inputs: dict[str, Any] = {"env": run.environment, "stdin": run.stdin, "check": False}
    inputs |= {"argv": list(run.argv)} if run.shell is None else {"shell": True, "command": run.shell}
    if run.timeout_seconds is not None:
        inputs["timeout_seconds"] = run.timeout_seconds
    name = run.template or run.description or "script"
    return Work(
        task=Task(id=new_task_id(), name=name, status=Status.IN_PROGRESS),
        attempt=1,
        inputs=inputs,
        dependencies={},
        report=_unreported,
    )


async def _unreported(fraction: float) -> None:
    """Progress that nobody looks at."""


def _refuse(reason: TaskFailureReason, message: str) -> NoReturn:
    raise TaskFailed(TaskFailure(reason, message))
