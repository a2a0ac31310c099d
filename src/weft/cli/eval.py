"""`weft eval`."""

from typing import TYPE_CHECKING, Any

import click

from weft.cli.options import (
    binding_options,
    evaluation_options,
    json_option,
    model_options,
    surface_option,
)

if TYPE_CHECKING:
    from weft.language.reading import Surface
    from weft.language.tree import Program


@click.command("eval")
@click.argument("expression", required=False, metavar="EXPR|-")
@click.option("--file", "file", metavar="FILE", help="Evaluate this file instead.")
@binding_options
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
    on standard error, with --json in the document. Exit code 1: a task failed, or the
    program as it ran; 5: it could not be tried (no model or network).
    """
    # Imported here: `weft eval --help` must not pay for it.
    from weft.cli.bindings import read_bindings
    from weft.cli.collecting import collecting
    from weft.cli.evaluating import Evaluation, EvaluationOptions, run
    from weft.cli.usage import print_usage, usage_json
    from weft.cli.values import print_value, print_value_json

    program = _program(expression, file, surface)
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
