"""`weft eval`."""

import json
from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from weft.cli.options import (
    TEXT,
    evaluation_options,
    json_option,
    model_options,
    read_input,
    surface_option,
)

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
@click.option(
    "--secret",
    "secrets",
    metavar="NAME[=VARIABLE]",
    multiple=True,
    type=TEXT,
    help="Bind a name to what an environment variable (default: of that name) holds; it is shown nowhere.",
)
@evaluation_options
@model_options
@click.option(
    "--usage", "shows_usage", is_flag=True, help="Show on standard error which step has used how much."
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
    """Evaluate an expression, and print its value.

    EXPR is one or several S-expressions, or an XML task; `-` reads standard input. A string is printed as it
    is, a task result as its content, any other value as JSON. Models are asked and tools called as weft.toml
    says; scripts run here, as the `command` executor runs them. Nothing is stored. What models took is said
    on standard error, with --json in the document. Exit code 1: a task failed, or the program as it ran.
    """
    # Imported here: `weft eval --help` must not pay for it.
    from weft.cli.collecting import collecting
    from weft.cli.evaluating import Evaluation, EvaluationOptions, run
    from weft.cli.usage import print_usage, usage_json
    from weft.cli.values import print_value, print_value_json
    from weft.evaluator.required_inputs import require_inputs

    program = _program(expression, file, surface)
    bindings = dict(map(_binding, settings)) | dict(map(_secret, secrets))

    evaluation = Evaluation(EvaluationOptions(**options))

    async def work() -> Any:
        try:
            await evaluation.load()
            require_inputs(program, evaluation.evaluator, bindings)
            return await evaluation.evaluator.evaluate(program, bindings)
        finally:
            await evaluation.close()

    ledger = evaluation.effects.ledger
    is_told = False
    try:
        with collecting():
            value = run(work)
        is_told = is_json
    finally:
        evaluation.narrator.end()
        if ledger.entries and (shows_usage or not is_told):
            print_usage(ledger, as_tree=shows_usage)
    if is_json:
        print_value_json(value, **({"usage": usage_json(ledger)} if ledger.entries else {}))
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


def _secret(setting: str) -> tuple[str, Any]:
    """A name, and the secret it is bound to. The value is never an argument: others can read these."""
    import os

    from weft.secrets.marked import Secret

    name, _, variable = setting.partition("=")
    variable = variable or name
    if not name.isprintable() or not name:
        raise click.UsageError(f"--secret takes NAME or NAME=VARIABLE; {setting!r} is none")
    value = os.environ.get(variable)
    if not value:
        raise click.UsageError(f"--secret {name}: the environment variable {variable} is not set")
    return name, Secret(value, name)


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise click.UsageError(f"--set: {digits} is too large for a number")
    return number


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
