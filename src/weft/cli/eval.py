"""`weft eval`."""

import json
from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from weft.cli.options import TEXT, evaluation_options, json_option, read_input, surface_option

if TYPE_CHECKING:
    from weft.language.reading import Surface
    from weft.language.tree import Program


@click.command("eval")
@click.argument("expression", required=False, metavar="EXPR|-")
@click.option("--file", "file", metavar="FILE", help="Evaluate this file instead.")
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    type=TEXT,
    help="Bind a name; a value that is JSON is JSON, @FILE is the text of a file. Several may be given.",
)
@evaluation_options
@surface_option
@json_option
def eval_command(
    expression: str | None,
    file: str | None,
    settings: tuple[str, ...],
    libraries: tuple[str, ...],
    max_steps: int | None,
    timeout_seconds: float | None,
    surface: "Surface | None",
    is_json: bool,
) -> None:
    """Evaluate an expression, and print its value.

    EXPR is one or several S-expressions, or an XML task; `-` reads standard input. A string is printed as it
    is, a task result as its content, any other value as JSON. Scripts run here, as the `command` executor
    runs them. Nothing is stored. Exit code 1: a task failed, or the program did while it ran.
    """
    # Imported here: `weft eval --help` must not pay for it.
    from weft.cli.evaluating import new_evaluator, run
    from weft.cli.values import print_value, print_value_json
    from weft.evaluator.required_inputs import require_inputs

    program = _program(expression, file, surface)
    bindings = dict(map(_binding, settings))

    async def work() -> Any:
        evaluator = await new_evaluator(libraries, max_steps, timeout_seconds)
        require_inputs(program, evaluator, bindings)
        return await evaluator.evaluate(program, bindings)

    value = run(work)
    if is_json:
        print_value_json(value)
    else:
        print_value(value)


def _program(expression: str | None, file: str | None, surface: "Surface | None") -> "Program":
    from weft.cli.programs import STDIN, read_one, read_stdin
    from weft.language.reading import read_text

    if (expression is None) == (file is None):
        raise click.UsageError("give an expression, - for standard input, or --file FILE")
    if file is not None:
        return read_one(file, surface)
    if expression == STDIN:
        return read_stdin(surface)
    return read_text(expression or "", "<eval>", surface)


def _binding(setting: str) -> tuple[str, Any]:
    name, sign, text = setting.partition("=")
    if not name or not sign:
        raise click.UsageError(f"--set takes NAME=VALUE; {setting!r} is none")
    if text.startswith("@"):
        return name, read_input(text[1:]).decode("utf-8", "replace")
    try:
        return name, json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        return name, text


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise click.UsageError(f"--set: {digits} is too large for a number")
    return number


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
