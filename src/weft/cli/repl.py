"""`weft repl`."""

import sys
from typing import Any

import click

from weft.cli.options import binding_options, evaluation_options, model_options
from weft.cli.saying import echo


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
    from weft.cli.bindings import read_bindings
    from weft.cli.collecting import collecting
    from weft.cli.evaluating import Evaluation, EvaluationOptions
    from weft.cli.repl_commands import names
    from weft.cli.repl_input import PlainInput
    from weft.cli.repl_loop import take_all
    from weft.cli.repl_session import Session

    bindings = read_bindings(settings, secrets)
    with collecting(), Session(Evaluation(EvaluationOptions(**options))) as session:
        session.bind(bindings)
        if sys.stdin is not None and sys.stdin.isatty():
            from weft.cli.repl_terminal import TerminalInput

            echo("Expressions are evaluated; ,help lists commands; Ctrl-D leaves.")
            take_all(session, TerminalInput(lambda: names(session)))
        else:
            take_all(session, PlainInput())
