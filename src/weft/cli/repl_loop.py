"""The loop of a session: an input is read, evaluated, and its value printed; mistakes do not end it."""

from collections.abc import Iterable

from weft.cli.problems import print_error
from weft.cli.repl_commands import Leave, run_command
from weft.cli.repl_session import Session
from weft.cli.saying import echo
from weft.cli.text import printable
from weft.cli.values import print_value
from weft.errors import AuthorError, WeftError


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
