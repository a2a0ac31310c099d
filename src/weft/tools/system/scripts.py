"""`system:run_script`: runs a script under the same rules as the `command` executor."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from msgspec import Meta

from weft.evaluator.effects import ScriptOutcome, ScriptRun
from weft.evaluator.errors import TaskFailed
from weft.evaluator.tools import ToolContext, ToolDefinition, ToolFailed
from weft.secrets.truncation import cut_middle
from weft.text import NulFree
from weft.tools.arguments import Arguments, read_arguments, schema_of

RunScript = Callable[[ScriptRun], Awaitable[ScriptOutcome]]
"""Runs a script in the first root, as the project's `[executors.command]` allows. Raises TaskFailed."""

DEFAULT_TIMEOUT_SECONDS = 60.0
"""Time limit if the model gives none, so that it does not wait forever."""

MAX_OUTPUT_CHARACTERS = 100_000
"""Maximum length of stdout and of stderr in the result; the middle of a longer text is left out."""


class RunScriptArguments(Arguments, frozen=True, kw_only=True):
    argv: Annotated[
        list[NulFree],
        Meta(
            min_length=1, description="The executable and its arguments, one string each. No shell is used."
        ),
    ]
    stdin: Annotated[str, Meta(description="Text for standard input.")] | None = None
    timeout_seconds: Annotated[float, Meta(gt=0, le=3600, description="Time limit in seconds.")] = (
        DEFAULT_TIMEOUT_SECONDS
    )


class RunScriptTool:
    """Runs a script in the first root."""

    has_effects = True
    definition = ToolDefinition(
        name="system:run_script",
        description="Run a command in the project folder and wait for it. Returns stdout, stderr and the "
        "exit code, also if it is not 0; timed_out is true if the time limit was reached.",
        input_schema=schema_of(RunScriptArguments),
    )

    def __init__(self, run_script: RunScript | None) -> None:
        self._run_script = run_script

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return `{"stdout", "stderr", "exit_code", "timed_out"}`."""
        given = read_arguments(RunScriptArguments, arguments)
        if self._run_script is None:
            raise ToolFailed("scripts cannot be run here")
        run = ScriptRun(
            argv=tuple(given.argv),
            stdin=given.stdin,
            timeout_seconds=given.timeout_seconds,
            template=context.template,
        )
        try:
            outcome = await self._run_script(run)
        except TaskFailed as error:
            raise ToolFailed(error.message) from None
        return {
            "stdout": cut_middle(outcome.stdout, MAX_OUTPUT_CHARACTERS),
            "stderr": cut_middle(outcome.stderr, MAX_OUTPUT_CHARACTERS),
            "exit_code": None if outcome.is_timed_out else outcome.exit_code,
            "timed_out": outcome.is_timed_out,
        }
