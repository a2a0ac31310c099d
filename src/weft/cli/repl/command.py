"""`weft repl`: read an input, evaluate it, print its value; errors do not end the session."""

import sys
from collections.abc import Iterable
from typing import Any

import click

from weft.cli.display.output import printable
from weft.cli.display.problems import print_error
from weft.cli.display.values import print_value
from weft.cli.eval import EvaluationOptions, ShownEvaluation
from weft.cli.invoke import echo
from weft.cli.options import binding_options, evaluation_options, model_options, read_bindings
from weft.cli.repl.commands import Leave, names, run_command
from weft.cli.repl.session import Session
from weft.cli.repl.terminal import PlainInput, TerminalInput
from weft.cli.store_access import tracing
from weft.errors import AuthorError, WeftError


@click.command()
@binding_options
@evaluation_options
@model_options
def repl(settings: tuple[str, ...], secrets: tuple[str, ...], **options: Any) -> None:
    """Evaluate expressions interactively and print their values.

    Later expressions can use what earlier ones defined; a template may be redefined. On a terminal, the input
    has a history, continues over several lines until its parentheses are closed, and Tab completes names.
    Ctrl-C interrupts an evaluation, Ctrl-D leaves the session. `,help` lists the commands.
    """
    bindings = read_bindings(settings, secrets)
    with tracing(), Session(ShownEvaluation(EvaluationOptions(**options))) as session:
        session.bind(bindings)
        if sys.stdin is not None and sys.stdin.isatty():
            echo("Type an expression to evaluate it; ,help lists commands; Ctrl-D leaves.")
            process_inputs(session, TerminalInput(lambda: names(session)))
        else:
            process_inputs(session, PlainInput())


def process_inputs(session: Session, inputs: Iterable[str]) -> None:
    """Evaluate inputs until they end, or one is `,quit`; print errors and continue."""
    for text in inputs:
        try:
            _process(session, text)
        except Leave:
            return
        except AuthorError as error:
            print_error(error)
        except WeftError as error:
            echo(f"error: {error.code}: {printable(error.message)}", err=True)
        except KeyboardInterrupt:
            echo("interrupted", err=True)


def _process(session: Session, text: str) -> None:
    if text.lstrip().startswith(","):
        run_command(session, text)
        return
    value = session.evaluate_text(text)
    if value is not None:
        print_value(value)
