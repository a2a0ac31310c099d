"""Implementation of `weft run`: check, store and run a program, show its tree, print its result."""

import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import click
from msgspec import Struct, structs

from weft.app.app import App
from weft.app.programs import (
    ResumeOptions,
    check_models,
    check_program,
    named_program,
    reject_fixed_options,
    resume_run,
    run_name,
    stored_program,
)
from weft.app.python_files import is_python, load_python_program
from weft.app.questions import questions_of, resume_suspended
from weft.cli.display.index_progress import IndexingLine
from weft.cli.display.live import last_event, watching
from weft.cli.display.model_events import ModelEventPrinter
from weft.cli.display.output import plural, print_json, printable
from weft.cli.display.problems import print_failure
from weft.cli.display.questions import (
    TerminalLock,
    echo_questions,
    is_person_here,
    person_to_ask,
    questions_json,
)
from weft.cli.display.values import print_value
from weft.cli.flow.run import allow_many_files, stop_run
from weft.cli.invoke import echo, echo_status, ignore_broken_pipe, tracing, with_app
from weft.cli.models.fetch import fetch_model
from weft.cli.options import read_bindings, read_input
from weft.cli.program_args import STDIN
from weft.cli.run.advice import next_step_hint
from weft.cli.signals import ShutdownSignals, exit_on_signal
from weft.cli.tasks.tree import print_tree
from weft.config.settings import load_settings, project_folder, working_folder
from weft.effects.local import LocalEffects
from weft.engine.limits import EngineLimits
from weft.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_UNAVAILABLE, EXIT_WAITING
from weft.evaluator.conversion import result_json
from weft.evaluator.effects import Effects
from weft.evaluator.results import is_unavailable
from weft.ids import TaskId, is_task_id
from weft.language.file_paths import find_path_names
from weft.language.reading import Surface
from weft.runs.files import SUFFIXES
from weft.runs.outcome import RunOutcome, Spent, outcome_of, spent_by
from weft.runs.program import StoredProgram, StoredText, file_text, program_of
from weft.runs.templates import UnknownTemplate, wanted_names, with_templates
from weft.secrets.references import KEY
from weft.store.errors import StoreNotFound
from weft.store.protocol import TaskFilter
from weft.tasks.program_params import PROGRAM
from weft.tasks.record import JsonObject, Status, Task
from weft.text import decode_text

MAX_TREE_STEPS = 60
"""Most steps of a run that is shown as a tree at its end; of a larger run only the count is shown."""


class RunOptions(Struct, frozen=True, kw_only=True):
    """Options of `weft run`."""

    is_ephemeral: bool = False
    is_fresh: bool = False
    name: str | None = None
    secrets: tuple[str, ...] = ()
    concurrency: int = 100
    libraries: tuple[str, ...] = ()
    max_steps: int | None = None
    timeout_seconds: float | None = None
    model: str | None = None
    budget_tokens: int | None = None
    budget_cost: float | None = None
    is_streaming: bool = False
    surface: Surface | None = None
    db: str | None = None
    user: str | None = None
    is_json: bool = False

    def limits(self) -> dict[str, float]:
        """Return the limits that were given as options."""
        named = {
            "steps": self.max_steps,
            "seconds": self.timeout_seconds,
            "tokens": self.budget_tokens,
            "cost": self.budget_cost,
        }
        return {name: limit for name, limit in named.items() if limit is not None}

    def resume_options(self) -> ResumeOptions:
        return ResumeOptions(limits=self.limits(), is_fresh=self.is_fresh)

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


class _EffectsFactory:
    """Creates the effects of a run and shows their progress on standard error."""

    def __init__(self, options: RunOptions) -> None:
        self._options = options
        self.model_events = ModelEventPrinter()
        self.terminal = TerminalLock()
        self.indexing = IndexingLine()

    def make(self, program: StoredProgram) -> Effects:
        """Return effects for one evaluation; the caller closes them."""
        return LocalEffects(
            log_message=lambda message: echo(printable(message), err=True),
            model=program.model,
            folder=program.folder,
            on_event=self.model_events.print_event,
            is_streaming=self._options.is_streaming,
            ask_person=person_to_ask(self.terminal),
            stores_questions=not self._options.is_ephemeral,  # its records do not outlive the run
            fetch=fetch_model,
            on_indexing=self.indexing.show,
        )

    def end(self) -> None:
        """Finish the lines that are still open on standard error."""
        self.indexing.end()
        self.model_events.end()


def run_program(file: str | None, values: tuple[str, ...], resumed: str | None, options: RunOptions) -> int:
    """Run a program, or resume a run, and return the exit code."""
    if resumed is not None and not is_task_id(resumed):
        raise click.UsageError(f"--resume takes the id of a run, not {resumed!r}")
    if resumed is not None:
        reject_fixed_options(options.fixed_options())
    program, inputs = (None, {}) if file is None else _load_program(file, values, options)
    allow_many_files()
    effects = _EffectsFactory(options)

    async def act(app: App) -> int:
        _allow_secrets(app, options)
        try:
            return await _run(app, program, inputs, resumed, options, effects)
        finally:
            effects.end()

    with tracing(), tempfile.TemporaryDirectory(prefix="weft-") as folder:
        return with_app(
            str(Path(folder) / "weft.db") if options.is_ephemeral else options.db,
            options.user,
            act,
            must_exist=resumed is not None,
            limits=EngineLimits(concurrency=options.concurrency),
            new_effects=effects.make,
        )


def _load_program(
    file: str, values: tuple[str, ...], options: RunOptions
) -> tuple[StoredProgram, JsonObject]:
    """Return the checked program and its inputs; raise InvalidProgram with all problems."""
    inputs = read_bindings(values, (), option=None) | dict(map(_secret_reference, options.secrets))
    settings = load_settings()
    load = _load_registered if _is_name(file, options) else _load_file
    program = load(file, inputs, options)
    check_program(program, inputs, settings)
    check_models(program, settings.models)
    return program, _resolve_paths(program, inputs)


def _resolve_paths(program: StoredProgram, inputs: JsonObject) -> JsonObject:
    """Return the inputs; paths of files relative to the current folder become relative to the project."""
    names = find_path_names([form for one in program.programs() for form in one.forms])
    folder = project_folder(working_folder())
    return inputs | {name: _resolve_path(inputs[name], folder) for name in names & inputs.keys()}


def _resolve_path(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [_resolve_path(one, folder) for one in value]
    if not isinstance(value, str) or not value:
        return value
    here = Path.cwd() / value
    if Path.cwd() == folder or not here.is_file():
        return value
    return os.path.relpath(here, folder) if here.is_relative_to(folder) else str(here)


def _is_name(file: str, options: RunOptions) -> bool:
    """Return whether `file` is the name of a registered template; False if it exists or looks like a file."""
    path = Path(file)
    looks_like_file = file == STDIN or is_python(file) or path.suffix.lower() in SUFFIXES or "/" in file
    return not looks_like_file and options.surface is None and not path.exists()


def _load_registered(name: str, inputs: JsonObject, options: RunOptions) -> StoredProgram:
    if options.libraries:
        raise click.UsageError(
            "--library cannot be used with a registered template, which has its own library"
        )

    async def find(app: App) -> StoredProgram:
        return await named_program(
            app,
            name,
            inputs,
            model=options.model,
            reuse=not options.is_fresh,
            limits=options.limits(),
        )

    try:
        return with_app(options.db, options.user, find)
    except StoreNotFound as error:
        raise UnknownTemplate(name, hint=f", nor is there such a file: {error.message}") from None


def _load_file(file: str, inputs: JsonObject, options: RunOptions) -> StoredProgram:
    """Return the program of a file, with the registered templates that it uses."""
    program = stored_program(
        _read_source(file, options.surface, inputs),
        libraries=options.libraries,
        model=options.model,
        reuse=not options.is_fresh,
        limits=options.limits(),
    )
    wanted, is_choosing = wanted_names(program, inputs)
    if not wanted and not is_choosing:
        return program

    async def find(app: App) -> StoredProgram:
        return await with_templates(app.store, program, user_id=app.owner.user_id, inputs=inputs)

    try:
        return with_app(options.db, options.user, find)
    except StoreNotFound:  # no registered templates: the check reports missing names
        return program


def _read_source(file: str, surface: Surface | None, inputs: JsonObject) -> StoredText:
    if is_python(file):
        with redirect_stdout(sys.stderr):  # standard output is for the result of the run
            return load_python_program(file, inputs)
    if file != STDIN:
        return file_text(Path(file), surface)
    return StoredText("<stdin>", decode_text(read_input(STDIN)), surface)


def _secret_reference(setting: str) -> tuple[str, JsonObject]:
    name, _, variable = setting.partition("=")
    return name, {KEY: variable or name}


def _allow_secrets(app: App, options: RunOptions) -> None:
    """Allow the secrets named on the command line, in addition to the secrets of weft.toml."""
    named = tuple(setting.partition("=")[2] or setting for setting in options.secrets)
    if named:
        secrets = app.settings.secrets
        allowed = structs.replace(secrets, allow=(*secrets.allow, *named))
        app.settings = structs.replace(app.settings, secrets=allowed)


async def _run(
    app: App,
    program: StoredProgram | None,
    inputs: JsonObject,
    resumed: str | None,
    options: RunOptions,
    effects: _EffectsFactory,
) -> int:
    stopping = ShutdownSignals(app.store.stop_waiting)
    with stopping.on_signals():
        last_shown = 0
        with stopping.storing():
            if program is None:
                last_shown = await last_event(app, TaskId(resumed or ""))
                root_id = await resume_run(app, TaskId(resumed or ""), options.resume_options())
                if is_person_here():
                    await resume_suspended(app, root_id)
            else:
                root_id = await app.begin_program(program, inputs, name=options.name or run_name(program))
        if not options.is_ephemeral:
            echo_status(f"run {root_id}")
        async with watching(app, root_id, effects.terminal, after=last_shown):
            await stopping.run_until_stopped(app.wait(root_id), partial(stop_run, app, root_id))
        outcome = await outcome_of(app.store, await app.get(root_id))
        questions = () if outcome.result is not None else await questions_of(app, root_id)
        code = _exit_code(outcome, is_waiting=bool(questions) and outcome.status is Status.PENDING)
    exit_on_signal(code)
    await _show(app, outcome, questions, options)
    if code == EXIT_WAITING:
        echo_questions(questions, then=f"weft run --resume {root_id}")
    elif code == EXIT_INTERRUPTED and not options.is_ephemeral:
        echo_status(f"stopped; resume with: weft run --resume {root_id}")
    elif code and not options.is_ephemeral:
        echo_status(next_step_hint(await app.get(root_id), outcome))
    return code


def _exit_code(outcome: RunOutcome, *, is_waiting: bool) -> int:
    if outcome.result is None:
        return EXIT_WAITING if is_waiting else EXIT_INTERRUPTED
    if outcome.status is Status.COMPLETED:
        return 0
    return EXIT_UNAVAILABLE if is_unavailable(outcome.result.notes.get("error") or {}) else EXIT_FAILED


async def _show(app: App, outcome: RunOutcome, questions: Sequence[Task], options: RunOptions) -> None:
    flow = await app.flow_of(outcome.root_id)
    spent = spent_by(flow)
    with ignore_broken_pipe():
        if len(flow) <= MAX_TREE_STEPS:
            print_tree(flow, to_stderr=True)
        echo(_summary_line(len(flow) - 1, spent), err=True)
        if spent.usage.turns and not spent.reused:
            await _explain_missing_reuse(app, flow.root)
        if options.is_json:
            result = {} if outcome.result is None else result_json(outcome.result)
            print_json({"root_id": outcome.root_id, **result, **questions_json(questions)})
        elif outcome.status is Status.COMPLETED and outcome.result is not None:
            print_value(outcome.result.value)
        elif outcome.result is not None:
            print_failure(outcome.result.notes.get("error") or {})


async def _explain_missing_reuse(app: App, root: Task) -> None:
    """Print a line if another version of weft ran the same program, so that no result was reused."""
    program = program_of(root)
    if not program.is_reusing:
        return
    wanted = TaskFilter(name=root.name, status=Status.COMPLETED, only_roots=True, with_steps=False, limit=20)
    for task in (await app.list(wanted)).tasks:
        params = (task.params or {}).get(PROGRAM)
        if task.id == root.id or not isinstance(params, dict) or task.inputs != root.inputs:
            continue
        if (params.get("main") or {}).get("text") == program.main.text:
            before = params.get("version") or "(an earlier version)"
            if before != program.version:
                reason = f"it was made by weft {before}, this is weft {program.version}"
                echo_status(f"no results of run {task.id} were reused: {reason}")
            return


def _summary_line(steps: int, spent: Spent) -> str:
    usage = spent.usage
    line = f"{plural(steps, 'step')}, {plural(usage.turns, 'model call')}"
    if spent.reused:
        line += f" ({spent.reused} more reused)"
    line += f", {plural(usage.tokens, 'token')}, ${usage.cost:.4f}"
    if usage.unpriced:
        line += f" and {plural(usage.unpriced, 'call')} without a known price"
    return line
