"""`weft eval`: evaluate an expression or a program."""

import asyncio
import os
import signal
from collections.abc import Callable, Collection, Coroutine, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import click
from greenlet import getcurrent
from msgspec import Struct, structs

from weft.app.evaluation import require_sound
from weft.cli.display.index_progress import IndexingLine
from weft.cli.display.model_events import ModelEventPrinter
from weft.cli.display.output import printable
from weft.cli.display.questions import person_to_ask
from weft.cli.invoke import echo
from weft.cli.models.fetch import fetch_model
from weft.cli.options import binding_options, evaluation_options, json_option, model_options, surface_option
from weft.config.settings import load_settings
from weft.effects.asked_models import require_models
from weft.effects.local import LocalEffects
from weft.evaluator.branches import Branch
from weft.evaluator.budget import EvaluationLimits
from weft.evaluator.evaluator import Evaluator
from weft.language.ast import Define, Program
from weft.language.file_paths import find_required_files
from weft.runs.files import library_path, load_definitions

if TYPE_CHECKING:
    from weft.language.reading import Surface


@click.command("eval")
@click.argument("expression", required=False, metavar="EXPR|-")
@click.option("--file", "file", metavar="FILE", help="Evaluate the program of this file instead of EXPR.")
@binding_options
@evaluation_options
@model_options
@click.option(
    "--usage", "shows_usage", is_flag=True, help="Print tokens and cost of every step to standard error."
)
@surface_option
@json_option
def eval_command(
    expression: str | None,
    file: str | None,
    settings: tuple[str, ...],
    secrets: tuple[str, ...],
    surface: "Surface | None",
    shows_usage: bool,
    is_json: bool,
    **options: Any,
) -> None:
    """Evaluate an expression and print its value; store nothing.

    EXPR is one or more S-expressions, or an XML task; `-` reads standard input. A string is printed as it is,
    a task result as its content, any other value as JSON. Models and tools are configured in weft.toml.
    Scripts run with the settings of the `command` executor. Tokens and cost are printed to standard error, or
    with --json as part of the document. Exit code 1: a task or the program failed; 5: no model or no network,
    try again later.

    \b
    Examples:
      weft eval '(+ 1 2)'
      weft eval --file review.xml --set code=@src/app.py
    """
    # Imported here: keeps --help fast.
    from weft.cli.display.values import print_usage, print_value, print_value_json, usage_json
    from weft.cli.invoke import tracing
    from weft.cli.options import read_bindings

    program = _read_program(expression, file, surface)
    bindings = read_bindings(settings, secrets)

    evaluation = Evaluation(EvaluationOptions(**options))

    async def work() -> Any:
        try:
            await evaluation.load()
            evaluation.require_sound(program, bindings)
            evaluation.require_models(program)
            await evaluation.require_files(program, bindings)
            return await evaluation.evaluator.evaluate(program, bindings)
        finally:
            await evaluation.close()

    ledger = evaluation.effects.ledger
    is_in_document = False
    try:
        with tracing():
            value = run(work)
        is_in_document = is_json
    finally:
        evaluation.model_events.end()
        if ledger.entries and (shows_usage or not is_in_document):
            print_usage(ledger, as_tree=shows_usage)
    if is_json:
        print_value_json(value, **({"usage": usage_json(ledger)} if ledger.entries else {}))
    else:
        print_value(value)


def _read_program(expression: str | None, file: str | None, surface: "Surface | None") -> "Program":
    from weft.cli.program_args import STDIN, read_one, read_stdin
    from weft.language.reading import read_text

    if (expression is None) == (file is None):
        raise click.UsageError("give either an expression, - for standard input, or --file FILE")
    if file is not None:
        return read_one(file, surface)
    if expression == STDIN:
        return read_stdin(surface)
    return read_text(expression or "", "<eval>", surface)


T = TypeVar("T")


class EvaluationOptions(Struct, frozen=True, kw_only=True):
    """Options of `weft eval` and `weft repl` for their evaluations."""

    libraries: tuple[str, ...] = ()
    max_steps: int | None = None
    """Maximum number of operations, not of recorded steps; None: the default limit."""
    timeout_seconds: float | None = None
    model: str | None = None
    budget_tokens: int | None = None
    budget_cost: float | None = None
    is_streaming: bool = False

    def limits(self) -> EvaluationLimits:
        limits = EvaluationLimits(
            seconds=self.timeout_seconds, tokens=self.budget_tokens, cost=self.budget_cost
        )
        return limits if self.max_steps is None else structs.replace(limits, operations=self.max_steps)


class Evaluation:
    """An evaluator with its effects, and the templates and functions of the given libraries."""

    def __init__(self, options: EvaluationOptions) -> None:
        self._options = options
        self.model_events = ModelEventPrinter()
        self._indexing = IndexingLine()
        self.effects = LocalEffects(
            log_message=_print_message,
            model=options.model,
            on_event=self.model_events.print_event,
            is_streaming=options.is_streaming,
            ask_person=person_to_ask(),
            fetch=fetch_model,
            on_indexing=self._indexing.show,
            resolves_from_cwd=True,
        )
        self.evaluator = Evaluator(self.effects, limits=options.limits())
        self._functions: list[Define] = []

    def require_models(self, program: Program) -> None:
        """Raise ModelUnusable if the program may use a model that is not available."""
        require_models(
            program.forms,
            self.evaluator.library,
            lambda: load_settings().models,
            os.environ,
            model=self._options.model,
            functions=self._functions,
        )

    async def require_files(self, program: Program, bindings: Mapping[str, Any]) -> None:
        """Raise TaskFailed if a file that the program is certain to read does not exist."""
        definitions = [*(one.template for one in self.evaluator.library), *self._functions]
        await self.effects.require_files(find_required_files(program.forms, definitions, bindings))

    async def load(self) -> None:
        libraries = [library_path(library) for library in self._options.libraries]
        if libraries:
            definitions = load_definitions(libraries)
            self._functions = [form for form in definitions.forms if isinstance(form, Define)]
            await self.evaluator.evaluate(definitions)

    def require_sound(self, program: Program, bindings: Collection[str]) -> None:
        """Raise InvalidProgram with all problems found by the checks, before the first effect."""
        require_sound(program, self.evaluator, self.effects, bindings, self._functions)

    async def close(self) -> None:
        """Close models and tools."""
        self._indexing.end()
        await self.effects.close()


def run(work: Callable[[], Coroutine[Any, Any, T]], runner: asyncio.Runner | None = None) -> T:
    """Return the result of `work`, run in a new event loop or in the loop of `runner`.

    Ctrl-C raises KeyboardInterrupt, SIGTERM raises SystemExit. Inside the evaluator they are raised at once,
    because a pure program never yields to the event loop. Elsewhere the work is cancelled at the next
    iteration of the loop: raising there could lose a script that is just being started.
    """
    stopped_by: list[int] = []

    async def stoppable() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def stop(number: int, frame: FrameType | None) -> None:
            if stopped_by or task is None or isinstance(getcurrent(), Branch):
                raise _interruption(number)
            stopped_by.append(number)
            loop.call_soon_threadsafe(task.cancel)

        for number in before:
            signal.signal(number, stop)
        return await work()

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return asyncio.run(stoppable()) if runner is None else runner.run(stoppable())
    except asyncio.CancelledError:
        if not stopped_by:
            raise
        raise _interruption(stopped_by[0]) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_message(message: str) -> None:
    for line in message.splitlines() or [""]:
        echo(printable(line), err=True)


def _interruption(number: int) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
