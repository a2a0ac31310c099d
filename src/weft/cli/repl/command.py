"""`weft repl`: read an input, evaluate it, print its value; errors do not end the loop."""

import sys
from collections.abc import Iterable
from typing import Any

import click

from weft.cli.display.output import printable
from weft.cli.display.problems import print_error
from weft.cli.display.values import print_value
from weft.cli.invoke import echo
from weft.cli.options import binding_options, evaluation_options, model_options
from weft.cli.repl.commands import Leave, run_command
from weft.cli.repl.session import Session
from weft.errors import AuthorError, WeftError


@click.command()
@binding_options
@evaluation_options
@model_options
def repl(settings: tuple[str, ...], secrets: tuple[str, ...], **options: Any) -> None:
    """Read expressions, evaluate them, and print their values, until the input ends.

    What one defines, the next can use; a template may be defined again. On a terminal there is a history,
    input goes on over several lines until its parentheses are closed, and Tab completes names. Ctrl-C ends
    an evaluation and not the session; Ctrl-D leaves. `,help` lists the commands.
    """
    # Imported here: `weft repl --help` must not pay for it.
    from weft.cli.eval import Evaluation, EvaluationOptions
    from weft.cli.invoke import collecting
    from weft.cli.options import read_bindings
    from weft.cli.repl.commands import names
    from weft.cli.repl.session import Session
    from weft.cli.repl.terminal import PlainInput

    bindings = read_bindings(settings, secrets)
    with collecting(), Session(Evaluation(EvaluationOptions(**options))) as session:
        session.bind(bindings)
        if sys.stdin is not None and sys.stdin.isatty():
            from weft.cli.repl.terminal import TerminalInput

            echo("Expressions are evaluated; ,help lists commands; Ctrl-D leaves.")
            take_all(session, TerminalInput(lambda: names(session)))
        else:
            take_all(session, PlainInput())


def take_all(session: Session, inputs: Iterable[str]) -> None:
    """Take inputs until they end, or one says to leave."""
    for text in inputs:
        try:
            _take(session, text)
        except Leave:
            return
        except AuthorError as error:
            print_error(error)
        except WeftError as error:
            echo(f"error: {error.code}: {printable(error.message)}", err=True)
        except KeyboardInterrupt:
            echo("interrupted", err=True)


def _take(session: Session, text: str) -> None:
    if text.lstrip().startswith(","):
        run_command(session, text)
        return
    value = session.evaluate_text(text)
    if value is not None:
        print_value(value)
