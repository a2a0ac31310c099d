"""`weft eval`: evaluate an expression or a program."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, TypeVar

import click
from greenlet import getcurrent

from weft.app.evaluation import Evaluation, read_text
from weft.app.sources import STDIN, read_program
from weft.cli.display.model_events import EffectDisplay
from weft.cli.display.values import print_usage, print_value, print_value_json, usage_json
from weft.cli.options import (
    EvaluationOptions,
    binding_options,
    evaluation_options,
    json_option,
    read_bindings,
    read_stdin,
    surface_option,
)
from weft.cli.store_access import tracing
from weft.evaluator.branches import Branch
from weft.evaluator.budget import EvaluationLimits
from weft.language.ast import Program
from weft.language.reading import Surface

T = TypeVar("T")


@click.command("eval")
@click.argument("expression", required=False, metavar="EXPR|-")
@click.option("--file", "file", metavar="FILE", help="Evaluate the program of this file instead of EXPR.")
@binding_options
@evaluation_options
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
    surface: Surface | None,
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
    program = _read_program(expression, file, surface)
    bindings = read_bindings(settings, secrets)
    evaluation = ShownEvaluation(EvaluationOptions(**options))

    async def work() -> Any:
        try:
            await evaluation.load()
            return await evaluation.evaluate(program, bindings)
        finally:
            await evaluation.close()

    ledger = evaluation.ledger
    is_in_document = False
    try:
        with tracing():
            value = run(work)
        is_in_document = is_json
    finally:
        evaluation.display.end()
        if ledger.entries and (shows_usage or not is_in_document):
            print_usage(ledger, as_tree=shows_usage)
    if is_json:
        print_value_json(value, **({"usage": usage_json(ledger)} if ledger.entries else {}))
    else:
        print_value(value)


def _read_program(expression: str | None, file: str | None, surface: Surface | None) -> Program:
    if (expression is None) == (file is None):
        raise click.UsageError("give either an expression, - for standard input, or --file FILE")
    if file is not None or expression == STDIN:
        return read_program(file or STDIN, surface, read_stdin)
    return read_text(expression or "", "<eval>", surface)


class ShownEvaluation(Evaluation):
    """An evaluation with the effects of the project, which shows them on standard error."""

    def __init__(self, options: EvaluationOptions) -> None:
        self.display = EffectDisplay()
        effects = self.display.hooks(is_streaming=options.is_streaming).effects(
            model=options.model, resolves_from_cwd=True
        )
        given = {"operations" if name == "steps" else name: limit for name, limit in options.limits().items()}
        super().__init__(effects, limits=EvaluationLimits(**given))
        self.ledger = effects.ledger
        self.close = effects.close
        self._libraries = options.libraries

    async def load(self) -> None:
        """Load the libraries of the options."""
        await self.load_libraries(self._libraries)


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


def _interruption(number: int) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
