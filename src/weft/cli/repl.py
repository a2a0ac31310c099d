"""`weft repl`."""

import sys
from typing import Any

import click

from weft.cli.options import evaluation_options, model_options


@click.command()
@evaluation_options
@model_options
def repl(**options: Any) -> None:
    """Read expressions, evaluate them, and print their values, until the input ends.

    What one defines, the next can use; a template may be defined again. On a terminal there is a history,
    input goes on over several lines until its parentheses are closed, and Tab completes names. Ctrl-C ends
    an evaluation and not the session; Ctrl-D leaves. `,help` lists the commands.
    """
    # Imported here: `weft repl --help` must not pay for it.
    from weft.cli.collecting import collecting
    from weft.cli.evaluating import Evaluation, EvaluationOptions
    from weft.cli.repl_commands import names
    from weft.cli.repl_input import PlainInput
    from weft.cli.repl_loop import take_all
    from weft.cli.repl_session import Session

    with collecting(), Session(Evaluation(EvaluationOptions(**options))) as session:
        if sys.stdin is not None and sys.stdin.isatty():
            from weft.cli.repl_terminal import TerminalInput

            click.echo("Expressions are evaluated; ,help lists commands; Ctrl-D leaves.")
            take_all(session, TerminalInput(lambda: names(session)))
        else:
            take_all(session, PlainInput())
