"""`system:run_script`: a program, under the same rules as the `command` executor."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from msgspec import Meta

from weft.evaluator.effects import ScriptOutcome, ScriptRun
from weft.evaluator.errors import TaskFailed
from weft.evaluator.tools import ToolContext, ToolDefinition, ToolFailed
from weft.secrets.truncation import cut_middle
from weft.tools.arguments import Arguments, read_arguments, schema_of

RunScript = Callable[[ScriptRun], Awaitable[ScriptOutcome]]
"""Runs a program in the first root, as the project's `[executors.command]` allows. Raises TaskFailed."""

DEFAULT_TIMEOUT_SECONDS = 60.0
"""A model that forgets to say how long does not wait for ever."""

MAX_OUTPUT_CHARACTERS = 100_000
"""How much of stdout, and of stderr, is given back: the start and the end, where the errors are."""


class RunScriptArguments(Arguments, frozen=True, kw_only=True):
    argv: Annotated[
        list[Annotated[str, Meta(pattern=r"^[^\x00]*$")]],
        Meta(
            min_length=1, description="The program and its arguments, one string each. No shell reads them."
        ),
    ]
    stdin: Annotated[str, Meta(description="What the program reads from standard input.")] | None = None
    timeout_seconds: Annotated[float, Meta(gt=0, le=3600, description="When to stop it, in seconds.")] = (
        DEFAULT_TIMEOUT_SECONDS
    )


class RunScriptTool:
    """Runs a program in the first root."""

    has_effects = True
    definition = ToolDefinition(
        name="system:run_script",
        description="Run a program in the project folder and wait for it. Gives stdout, stderr and the exit "
        "code, whatever that is; timed_out is true when it was stopped.",
        input_schema=schema_of(RunScriptArguments),
    )

    def __init__(self, run_script: RunScript | None) -> None:
        self._run_script = run_script

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """`{"stdout", "stderr", "exit_code", "timed_out"}`."""
        given = read_arguments(RunScriptArguments, arguments)
        if self._run_script is None:
            raise ToolFailed("programs cannot be run here")
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
