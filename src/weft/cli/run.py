"""`weft run`: check, store and run a program, show its tree, print its result."""

import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click
from msgspec import structs

from weft.app.app import App, EngineLimits
from weft.app.programs import (
    LoadedProgram,
    RegisteredName,
    ResumedRun,
    ResumeOptions,
    RunOptions,
    RunOutcome,
    Spent,
    StoredText,
    explain_missing_reuse,
    open_for_run,
    reject_fixed_options,
    run_program,
    spent_by,
)
from weft.app.run_records import next_step_hint
from weft.app.sources import find_source
from weft.cli.display.model_events import EffectDisplay
from weft.cli.display.output import plural, print_json
from weft.cli.display.problems import print_failure
from weft.cli.display.questions import echo_questions, is_person_here, questions_json
from weft.cli.display.tree import print_tree
from weft.cli.display.values import print_value
from weft.cli.invoke import echo, echo_status, ignore_broken_pipe
from weft.cli.options import (
    PROGRAM,
    TASK_ID,
    EvaluationOptions,
    evaluation_options,
    read_bindings,
    read_stdin,
    surface_option,
)
from weft.cli.signals import ShutdownSignals, TerminalObserver, allow_many_files, exit_on_signal
from weft.cli.store_access import StoreOptions, run_async, store_options, tracing
from weft.config.settings import Settings, project_folder, working_folder
from weft.errors import EXIT_INTERRUPTED, EXIT_WAITING
from weft.evaluator.conversion import result_json
from weft.ids import TaskId
from weft.language.file_paths import find_path_names
from weft.language.reading import Surface
from weft.tasks.record import JsonObject, Status

MAX_TREE_STEPS = 60
"""Most steps of a run that is shown as a tree at its end; of a larger run only the count is shown."""


@click.command("run")
@click.argument("program", required=False, type=PROGRAM, metavar="FILE|FILE.py[:NAME]|NAME[@VERSION]|-")
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]...")
@click.option(
    "--resume",
    "resumed",
    metavar="ID",
    type=TASK_ID,
    help="Resume a run; finished steps are not performed again. `last` is the newest run.",
)
@click.option("--ephemeral", "is_ephemeral", is_flag=True, help="Delete all records of the run when it ends.")
@click.option("--no-reuse", "is_fresh", is_flag=True, help="Do not reuse cached results of earlier runs.")
@click.option("--name", metavar="NAME", help="Name of the run. Default: the name of the file or template.")
@click.option(
    "--secret",
    "secrets",
    metavar="NAME[=VARIABLE]",
    multiple=True,
    help="Bind NAME to the value of an environment variable (default: NAME). Only the variable's name is "
    "stored, never its value. May be repeated.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Maximum number of model requests, scripts and tool calls at the same time.",
)
@evaluation_options
@surface_option
@store_options
def run(program: str | None, values: tuple[str, ...], resumed: TaskId | None, **options: Any) -> int:
    """Run a program durably and print its result.

    FILE is XML or S-expressions. FILE.py:NAME runs an object of a Python file that was made with weft.build
    or @weft.task; without :NAME, the object named `program` or `main`. Any other NAME is a template that was
    registered with `weft library add`. Programs can use registered templates; later changes of a template do
    not affect a run.

    NAME=VALUE binds an input of the program, or an argument of the template, by its declared type: a string
    takes the text as it is, other types take JSON, and without a type it is JSON if it is JSON. NAME=@FILE is
    the text of a file (NAME=@@TEXT for a text that begins with @), NAME:=JSON is JSON whatever the type.

    A file that only defines one template runs this template. The result goes to standard output, everything
    else to standard error.

    Every step is stored. A run that was killed is resumed with --resume, and finished steps are not performed
    again. A step that another run performed with the same prompt, inputs, model and context is reused and
    costs nothing.

    Exit code 0: completed; 1: failed, --resume retries the failed steps; 2: invalid program, nothing was run;
    3: no such template or run; 4: suspended until a person answers a question (weft tasks answer); 5: no
    model, store or network, try again later; 130: interrupted.

    \b
    Examples:
      weft run review.xml code=@src/app.py
      weft run review@2 code=@src/app.py
      weft run report.sexp topic=tests depth:=2 --model local:qwen
      weft run --resume 3f0e0c1e-5f8b-4a55-9f5c-0f6f5a1c2b7d
    """
    if (program is None) == (resumed is None):
        raise click.UsageError("give either a program or --resume ID")
    command = RunCommand(**options)
    inputs = read_bindings(values, option=None, references=command.secrets, is_typed=True)
    if resumed is not None:
        reject_fixed_options(command.fixed_options())
    allow_many_files()
    with tracing():
        return run_async(command.run(program, resumed or TaskId(""), inputs))


class RunCommand(EvaluationOptions, frozen=True, kw_only=True):
    """The options of `weft run`."""

    is_ephemeral: bool
    is_fresh: bool
    name: str | None
    secrets: tuple[str, ...]
    concurrency: int
    surface: Surface | None
    store: StoreOptions

    def fixed_options(self) -> list[str]:
        """Return the given options that cannot be changed when a run is resumed."""
        named = {
            "--library": self.libraries,
            "--model": self.model,
            "--name": self.name,
            "--format": self.surface,
            "--ephemeral": self.is_ephemeral,
        }
        return [option for option, value in named.items() if value]

    async def run(self, program: str | None, resumed: TaskId, inputs: JsonObject) -> int:
        """Run a program, or resume a run, and return the exit code."""
        settings, display = self._settings(), EffectDisplay()
        hooks = display.hooks(
            is_streaming=self.is_streaming,
            stores_questions=not self.is_ephemeral,  # its records do not outlive the run
        )
        limits = EngineLimits(concurrency=self.concurrency)

        async def open_app(is_lookup: bool) -> App:
            is_own = not self.is_ephemeral or is_lookup
            chosen = settings if is_own else structs.replace(settings, db=":memory:")
            return await App.open(settings=chosen, must_exist=is_lookup, limits=limits, hooks=hooks)

        if program is None:
            changes = ResumeOptions(limits=self.limits(), is_fresh=self.is_fresh)
            source = ResumedRun(resumed, changes, asks_again=is_person_here())
            async with await open_app(True) as app:
                return await self._perform(app, source, {}, RunOptions(), display)
        options = RunOptions(
            name=self.name,
            model=self.model,
            reuse=not self.is_fresh,
            limits=self.limits(),
            libraries=self.libraries,
        )
        text = self._read_source(program, inputs)
        opening = open_for_run(open_app, settings, text, inputs, options, is_ephemeral=self.is_ephemeral)
        async with opening as (app, loaded, typed):
            return await self._perform(app, loaded, _resolve_paths(loaded, typed), options, display)

    def _settings(self) -> Settings:
        """Return the settings; secrets named on the command line are allowed in addition to weft.toml's."""
        settings = self.store.settings()
        named = tuple(setting.partition("=")[2] or setting for setting in self.secrets)
        allowed = structs.replace(settings.secrets, allow=(*settings.secrets.allow, *named))
        return structs.replace(settings, secrets=allowed)

    def _read_source(self, file: str, inputs: JsonObject) -> StoredText | RegisteredName:
        with redirect_stdout(sys.stderr):  # a Python file may print; standard output is for the result
            source = find_source(file, self.surface, inputs, read_stdin)
        if isinstance(source, RegisteredName) and self.libraries:
            raise click.UsageError(
                "--library cannot be used with a registered template, which has its own library"
            )
        return source

    async def _perform(
        self,
        app: App,
        source: LoadedProgram | ResumedRun,
        inputs: JsonObject,
        options: RunOptions,
        display: EffectDisplay,
    ) -> int:
        stopping = ShutdownSignals(app.leave_store)
        observer = TerminalObserver(stopping, None if self.is_ephemeral else "run", display.terminal)
        try:
            with stopping.on_signals():
                outcome = await run_program(app, source, inputs, options, observer)
        finally:
            display.end()
        exit_on_signal(outcome.exit_code)
        await self._show(app, outcome)
        if outcome.exit_code == EXIT_WAITING:
            echo_questions(outcome.questions, then=f"weft run --resume {outcome.root_id}")
        elif outcome.exit_code == EXIT_INTERRUPTED and not self.is_ephemeral:
            echo_status(f"stopped; resume with: weft run --resume {outcome.root_id}")
        elif outcome.exit_code and not self.is_ephemeral:
            echo_status(next_step_hint(await app.get(outcome.root_id), outcome))
        return outcome.exit_code

    async def _show(self, app: App, outcome: RunOutcome) -> None:
        flow = await app.flow_of(outcome.root_id)
        spent = spent_by(flow)
        with ignore_broken_pipe():
            if len(flow) <= MAX_TREE_STEPS:
                print_tree(flow, to_stderr=True)
            echo(_summary_line(len(flow) - 1, spent), err=True)
            reason = await explain_missing_reuse(app, flow.root, spent)
            if reason is not None:
                echo_status(reason)
            if self.store.is_json:
                result = {} if outcome.result is None else result_json(outcome.result)
                print_json({"root_id": outcome.root_id, **result, **questions_json(outcome.questions)})
            elif outcome.status is Status.COMPLETED and outcome.result is not None:
                print_value(outcome.result.value)
            elif outcome.result is not None:
                print_failure(outcome.error)


def _resolve_paths(program: LoadedProgram, inputs: JsonObject) -> JsonObject:
    """Return the inputs; paths of files relative to the current folder become relative to the project."""
    names = find_path_names(program.forms) & inputs.keys()
    folder = project_folder(working_folder()) if names else Path()
    return inputs | {name: _resolve_path(inputs[name], folder) for name in names}


def _resolve_path(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [_resolve_path(one, folder) for one in value]
    if not isinstance(value, str) or not value:
        return value
    here = Path.cwd() / value
    if Path.cwd() == folder or not here.is_file():
        return value
    return os.path.relpath(here, folder) if here.is_relative_to(folder) else str(here)


def _summary_line(steps: int, spent: Spent) -> str:
    usage = spent.usage
    line = f"{plural(steps, 'step')}, {plural(usage.turns, 'model call')}"
    if spent.reused:
        line += f" ({spent.reused} more reused)"
    line += f", {plural(usage.tokens, 'token')}"
    if usage.cost:
        line += f", ${usage.cost:.4f}"
    if usage.unpriced:
        line += f" and {plural(usage.unpriced, 'call')} without a known price"
    return line
