"""Problems of programs on a terminal: the place, the message, the line, a caret."""

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
        _print_details(msgspec.to_builtins(error.error))
    else:
        echo(f"error: {error.code}: {printable(error.message)}", err=True)


def print_failure(error: Mapping[str, Any]) -> None:
    """Print the TaskError of a run on standard error: where it happened, what it says, its details."""
    message, place = str(error.get("message")), (_cause(error).get("details") or {}).get("place")
    where = f"{place}: " if place and place not in message else ""
    echo(f"error: {where}{printable_lines(message)}", err=True)
    _print_details(error)


def _print_details(error: Mapping[str, Any]) -> None:
    """Print what `(error message details)` was given besides the message."""
    details = (_cause(error).get("notes") or {}).get("details")
    if details is not None:
        echo(f"  details: {printable(json.dumps(details, ensure_ascii=False))}", err=True)


def _cause(error: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the error of the step that failed: tasks around it tell it in words of their own."""
    while isinstance(cause := (error.get("details") or {}).get("subtaskError"), Mapping):
        error = cause
    return error


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
