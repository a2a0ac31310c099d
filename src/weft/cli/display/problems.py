"""Print errors of commands, and problems of programs: location, message, source line and a caret."""

import io
import json
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import click
import msgspec

from weft.cli.display.output import print_json, printable, printable_lines
from weft.cli.invoke import echo
from weft.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_INVALID, AuthorError, OutOfMemory, WeftError
from weft.evaluator.errors import TaskFailed, program_failure
from weft.language.diagnostics import InvalidProgram, LanguageProblem
from weft.language.source import NOWHERE
from weft.secrets.registry import redact

MAX_SHOWN_PROBLEMS = 50
"""How many problems are printed as text; --json prints all of them."""

BEFORE, WIDTH = 60, 100
"""How many characters of a long source line are shown before the column of the problem, and in total."""


def report_error(error: BaseException, *, is_json: bool) -> int:
    """Print the error of a command and return its exit code; errors of writing are ignored."""
    with suppress(OSError, ValueError):
        match error:
            case AuthorError() if not is_json:
                print_error(error)
            case WeftError():
                _report(is_json, error.code, error.message, error.problems(), _task_error(error))
            case click.ClickException() if is_json:
                _report(is_json, "usage", error.format_message())
            case click.ClickException():
                shown_usage = io.StringIO()
                error.show(shown_usage)
                echo(shown_usage.getvalue(), err=True, nl=False)
            case KeyboardInterrupt() | click.Abort():
                _report(is_json, "interrupted", "interrupted")
            case OSError(filename=None):  # of standard output, so the error cannot be written there
                _report(False, "output-failed", f"cannot write the output: {error.strerror}")
            case OSError():
                _report(is_json, "file-failed", f"{error.filename}: {error.strerror}")
            case MemoryError():
                _report(is_json, OutOfMemory.code, OutOfMemory().message)
            case _ if os.environ.get("WEFT_DEBUG"):
                echo(redact("".join(traceback.format_exception(error))), err=True, nl=False)
            case _:
                hint = "this is a bug in weft; set WEFT_DEBUG=1 to see the traceback"
                _report(is_json, "internal-error", f"{type(error).__name__}: {error} ({hint})")
    return _exit_code(error)


def _exit_code(error: BaseException) -> int:
    if isinstance(error, WeftError):
        return error.exit_code
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return EXIT_INTERRUPTED
    if isinstance(error, MemoryError):
        return OutOfMemory.exit_code
    return EXIT_INVALID if isinstance(error, click.ClickException) else EXIT_FAILED


def _report(
    is_json: bool,
    code: str,
    message: str,
    problems: Sequence[dict[str, Any]] = (),
    task_error: dict[str, Any] | None = None,
) -> None:
    """Print an error, as JSON to standard output or as text to standard error."""
    if is_json:
        error: dict[str, Any] = {"code": code, "message": message, "problems": list(problems)}
        print_json({"error": error if task_error is None else {**error, "task_error": task_error}})
        sys.stdout.flush()
        return
    echo(f"error: {code}: {printable(message)}", err=True)
    if len(problems) > 1:
        for problem in problems[:MAX_SHOWN_PROBLEMS]:
            where = problem.get("path") or problem.get("field")
            echo(f"  {printable(str(where))}: {printable(str(problem['reason']))}", err=True)
        _echo_more(len(problems), "  ", to_stderr=True)


def _task_error(error: WeftError) -> dict[str, Any] | None:
    """Return the TaskError of an invalid or failed program as JSON, None for other errors."""
    if not isinstance(error, InvalidProgram | TaskFailed):
        return None
    found = error.error if isinstance(error, TaskFailed) else program_failure(error)
    document: dict[str, Any] = msgspec.to_builtins(found)
    return document


def _echo_more(count: int, indent: str, *, to_stderr: bool) -> None:
    if count > MAX_SHOWN_PROBLEMS:
        echo(f"{indent}... and {count - MAX_SHOWN_PROBLEMS} more (--json lists all)", err=to_stderr)


def print_problems(found: Sequence[LanguageProblem], *, to_stderr: bool) -> None:
    """Print the first problems, and how many more there are."""
    for problem in found[:MAX_SHOWN_PROBLEMS]:
        echo(shown(problem), err=to_stderr)
    _echo_more(len(found), "", to_stderr=to_stderr)


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
