"""Print problems of programs: location, message, source line and a caret."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from weft.cli.display.output import printable, printable_lines
from weft.cli.invoke import MAX_SHOWN_PROBLEMS, echo
from weft.errors import AuthorError
from weft.evaluator.errors import TaskFailed
from weft.language.diagnostics import InvalidProgram, LanguageProblem
from weft.language.source import NOWHERE
from weft.secrets.registry import redact

BEFORE, WIDTH = 60, 100
"""How many characters of a long source line are shown before the column of the problem, and in total."""


def print_problems(found: Sequence[LanguageProblem], *, to_stderr: bool) -> None:
    """Print the first problems, and how many more there are."""
    for problem in found[:MAX_SHOWN_PROBLEMS]:
        echo(shown(problem), err=to_stderr)
    if len(found) > MAX_SHOWN_PROBLEMS:
        echo(f"... and {len(found) - MAX_SHOWN_PROBLEMS} more (--json lists all)", err=to_stderr)


def print_error(error: AuthorError) -> None:
    """Print the problems of an invalid program, or the failure of a task, to standard error."""
    if isinstance(error, InvalidProgram):
        print_problems(error.found, to_stderr=True)
    elif isinstance(error, TaskFailed) and error.span is not NOWHERE:
        print_problems([error.problem], to_stderr=True)
        _print_details(msgspec.to_builtins(error.error))
    else:
        echo(f"error: {error.code}: {printable(error.message)}", err=True)


def print_failure(error: Mapping[str, Any]) -> None:
    """Print the TaskError of a run to standard error: location, message, details."""
    message, location = str(error.get("message")), (_cause(error).get("details") or {}).get("place")
    where = f"{location}: " if location and location not in message else ""
    echo(f"error: {where}{printable_lines(message)}", err=True)
    _print_details(error)


def _print_details(error: Mapping[str, Any]) -> None:
    """Print the second argument of `(error message details)`, if there is one."""
    details = (_cause(error).get("notes") or {}).get("details")
    if details is not None:
        echo(f"  details: {printable(json.dumps(details, ensure_ascii=False))}", err=True)


def _cause(error: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the error of the step that failed, without the errors of its enclosing tasks."""
    while isinstance(cause := (error.get("details") or {}).get("subtaskError"), Mapping):
        error = cause
    return error


def shown(problem: LanguageProblem) -> str:
    """Format a problem, with its source line and a caret if the line is known."""
    # Imported here: needed only for problems.
    from rich.cells import cell_len

    span = problem.span
    line = redact(span.source.line(span.line)).replace("\t", " ")
    if not line.strip() or not span.column:
        return printable(str(problem))
    start = max(0, span.column - BEFORE)
    before = printable(line[start : span.column - 1])
    after = printable(line[span.column - 1 : start + WIDTH])
    return f"{printable(str(problem))}\n  {before}{after}\n  {' ' * cell_len(before)}^"
