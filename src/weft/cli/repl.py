"""`weft repl`."""

import sys

import click

from weft.cli.options import evaluation_options


@click.command()
@evaluation_options
def repl(libraries: tuple[str, ...], max_steps: int | None, timeout_seconds: float | None) -> None:
    """Read expressions, evaluate them, and print their values, until the input ends.

    What one defines, the next can use; a template may be defined again. On a terminal there is a history,
    input goes on over several lines until its parentheses are closed, and Tab completes names. Ctrl-C ends
    an evaluation and not the session; Ctrl-D leaves. `,help` lists the commands.
    """
    # Imported here: `weft repl --help` must not pay for it.
    from weft.cli.evaluating import new_evaluator, run
    from weft.cli.repl_commands import names
    from weft.cli.repl_input import PlainInput
    from weft.cli.repl_loop import take_all
    from weft.cli.repl_session import Session

    session = Session(run(lambda: new_evaluator(libraries, max_steps, timeout_seconds)))
    if sys.stdin is not None and sys.stdin.isatty():
        from weft.cli.repl_terminal import TerminalInput

        click.echo("Expressions are evaluated; ,help lists commands; Ctrl-D leaves.")
        take_all(session, TerminalInput(lambda: names(session)))
    else:
        take_all(session, PlainInput())
