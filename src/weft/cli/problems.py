"""Problems of programs on a terminal: the place, the message, the line, a caret."""

from collections.abc import Sequence

from weft.cli.running import MAX_SHOWN_PROBLEMS
from weft.cli.saying import echo
from weft.cli.text import printable
from weft.errors import AuthorError
from weft.evaluator.errors import TaskFailed
from weft.language.problems import InvalidProgram, LanguageProblem
from weft.language.spans import NOWHERE
from weft.secrets.registry import redact

BEFORE, WIDTH = 60, 100
"""How much of a long line is shown before the place, and in all."""


def print_problems(found: Sequence[LanguageProblem], *, to_stderr: bool) -> None:
    """Print the first of the problems, and how many more there are."""
    for problem in found[:MAX_SHOWN_PROBLEMS]:
        echo(shown(problem), err=to_stderr)
    if len(found) > MAX_SHOWN_PROBLEMS:
        echo(f"... and {len(found) - MAX_SHOWN_PROBLEMS} more (--json lists all)", err=to_stderr)


def print_error(error: AuthorError) -> None:
    """Print what is wrong with a program, or how it failed, on standard error."""
    if isinstance(error, InvalidProgram):
        print_problems(error.found, to_stderr=True)
    elif isinstance(error, TaskFailed) and error.span is not NOWHERE:
        print_problems([error.problem], to_stderr=True)
    else:
        echo(f"error: {error.code}: {printable(error.message)}", err=True)


def shown(problem: LanguageProblem) -> str:
    """The problem; with the line it is about, if there is one, and a caret under the place."""
    # Imported here: only a mistake needs it.
    from rich.cells import cell_len

    place = problem.span
    line = redact(place.source.line(place.line)).replace("\t", " ")
    if not line.strip() or not place.column:
        return printable(str(problem))
    start = max(0, place.column - BEFORE)
    before = printable(line[start : place.column - 1])
    after = printable(line[place.column - 1 : start + WIDTH])
    return f"{printable(str(problem))}\n  {before}{after}\n  {' ' * cell_len(before)}^"
