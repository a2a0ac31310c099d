"""Run a command: turn errors into one line and an exit code, and export telemetry spans.

Status lines go to standard error; a failure to write them never fails the command.
"""

import asyncio
import errno
import io
import logging
import os
import re
import stat
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from weft.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_INVALID, AuthorError, OutOfMemory, WeftError

if TYPE_CHECKING:
    from weft.app.app import App
    from weft.engine.limits import EngineLimits
    from weft.executors.registry import ExecutorRegistry
    from weft.runs.executor import NewEffects


_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""C0 except line breaks and tabs, DEL, C1, and bidirectional controls."""


class Styled(str):
    """Text with weft's own escape sequences, created by `styled`; printed without cleaning."""

    __slots__ = ()


def clean(text: str) -> str:
    """Escape control characters, which results, names, files and models may contain."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n"))


def styled(text: str, **style: Any) -> Styled:
    """Return cleaned text with colours."""
    return Styled(click.style(clean(text), **style))


def echo(*parts: str, err: bool = False, nl: bool = True) -> None:
    """Print the parts on one line; clean all parts that are not `Styled`."""
    text = "".join(part if isinstance(part, Styled) else clean(part) for part in parts)
    click.echo(text, err=err, nl=nl)


class _CleanFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return clean(super().format(record))


def clean_logs() -> None:
    """Escape control characters in logged warnings, which may quote untrusted text."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_CleanFormatter())


def echo_status(text: str) -> None:
    """Print a line to standard error, with secrets redacted; ignore write errors."""
    # Imported here: keeps `weft --help` fast.
    from weft.secrets.registry import redact

    with ignore_stderr_errors():
        echo(redact(text), err=True)


@contextmanager
def ignore_stderr_errors() -> Iterator[None]:
    """Ignore errors of writing to standard error: a closed pipe, a closed terminal."""
    try:
        yield
    except OSError:
        mute(sys.stderr)


@contextmanager
def ignore_broken_pipe() -> Iterator[None]:
    """Ignore a closed standard output: `| head -1` must not change the exit code of a run."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        # A closed terminal gives EIO, and isatty() is false for it.
        is_terminal_gone = error.errno == errno.EIO and stat.S_ISCHR(os.fstat(1).st_mode)
        if not isinstance(error, BrokenPipeError) and not is_terminal_gone:
            raise
        mute(sys.stdout)


def mute(stream: IO[str]) -> None:
    """Redirect the stream to /dev/null: Python's last flush would otherwise change the exit code."""
    with suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, stream.fileno())
        os.close(devnull)


def open_closed_streams() -> None:
    """Open closed standard streams (`2>&-`) on /dev/null: the next opened file would get their number."""
    while True:
        found = os.open(os.devnull, os.O_RDWR)
        if found > 2:
            os.close(found)
            break
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - open until the process exits
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - open until the process exits


T = TypeVar("T")

MAX_SHOWN_PROBLEMS = 50
"""How many problems are printed as text; --json prints all of them."""


def with_app(
    db: str | None,
    user: str | None,
    act: "Callable[[App], Awaitable[T]]",
    *,
    must_exist: bool = True,
    limits: "EngineLimits | None" = None,
    executors: "ExecutorRegistry | None" = None,
    new_effects: "NewEffects | None" = None,
) -> T:
    """Open the store, return the result of `act`, and close the store.

    A missing store is created unless `must_exist`; then StoreNotFound is raised.
    """
    # Imported here: keeps `weft --help` fast.
    from weft.app.app import App
    from weft.gc_tuning import tune_collector

    async def run() -> T:
        asyncio.get_running_loop().set_exception_handler(_ignore_cancelled_connections)
        app = await App.open(
            db,
            user_id=user,
            must_exist=must_exist,
            limits=limits,
            executors=executors,
            new_effects=new_effects,
        )
        tune_collector()
        async with app:
            return await act(app)

    return asyncio.run(run())


def _ignore_cancelled_connections(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Hide errors of connections that Ctrl-C cancelled while they were made.

    asyncio raises InvalidStateError in a race; asyncpg leaves a ConnectionError in a future that nobody
    awaits any more, which Python reports when it deletes the future.
    """
    if not isinstance(context.get("exception"), asyncio.InvalidStateError | ConnectionError):
        loop.default_exception_handler(context)


def run_command(command: click.Command, arguments: Sequence[str]) -> int:
    """Run the command, report its errors, and return the exit code."""
    is_json = "--json" in arguments
    code: Any = None
    try:
        code = command.main(list(arguments), prog_name="weft", standalone_mode=False)
        sys.stdout.flush()
    except AuthorError as error:
        _report_to_author(error, is_json=is_json)
        return error.exit_code
    except WeftError as error:
        _report(is_json=is_json, code=error.code, message=error.message, problems=error.problems())
        return error.exit_code
    except click.ClickException as error:
        return _usage_error(is_json, error)
    except (KeyboardInterrupt, click.Abort):
        _report(is_json=is_json, code="interrupted", message="interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader (`head`, a pager) has exited; a second failure at exit would print a traceback.
        mute(sys.stdout)
    except OSError as error:
        return _system_error(is_json, error)
    except MemoryError:
        short = OutOfMemory()
        _report(is_json=is_json, code=short.code, message=short.message)
        return short.exit_code
    except Exception as error:
        if os.environ.get("WEFT_DEBUG"):
            _report_traceback(error)
            return EXIT_FAILED
        hint = "this is a bug in weft; set WEFT_DEBUG=1 to see the traceback"
        message = f"{type(error).__name__}: {error} ({hint})"
        _report(is_json=is_json, code="internal-error", message=message)
        return EXIT_FAILED
    return code if isinstance(code, int) else 0


def _system_error(is_json: bool, error: OSError) -> int:
    """Report an OSError: about its file, or about standard output if it names no file."""
    if error.filename is None:
        _report(is_json=False, code="output-failed", message=f"cannot write the output: {error.strerror}")
    else:
        _report(is_json=is_json, code="file-failed", message=f"{error.filename}: {error.strerror}")
    return EXIT_FAILED


def _report_traceback(error: Exception) -> None:
    # Imported here: needed only with WEFT_DEBUG.
    import traceback

    from weft.secrets.registry import redact

    with suppress(OSError, ValueError):
        echo(redact("".join(traceback.format_exception(error))), err=True, nl=False)


def _usage_error(is_json: bool, error: click.ClickException) -> int:
    if is_json:
        _report(is_json=True, code="usage", message=error.format_message())
    else:
        shown = io.StringIO()
        error.show(shown)
        echo(shown.getvalue(), err=True, nl=False)
    return EXIT_INVALID


def _report(
    *,
    is_json: bool,
    code: str,
    message: str,
    problems: Sequence[dict[str, Any]] = (),
    task_error: dict[str, Any] | None = None,
) -> None:
    """Print an error, as JSON to standard output or as text to standard error; ignore write errors."""
    with suppress(OSError, ValueError):
        if is_json:
            from weft.cli.display.output import print_json

            error: dict[str, Any] = {"code": code, "message": message, "problems": list(problems)}
            print_json({"error": error if task_error is None else {**error, "task_error": task_error}})
            sys.stdout.flush()
        else:
            _report_as_text(code, message, problems)


def _report_to_author(error: AuthorError, *, is_json: bool) -> None:
    """Print the problems of a program, with their locations."""
    from weft.cli.display.problems import print_error

    if is_json:
        _report(
            is_json=True,
            code=error.code,
            message=error.message,
            problems=error.problems(),
            task_error=_task_error(error),
        )
        return

    with suppress(OSError, ValueError):
        print_error(error)


def _task_error(error: AuthorError) -> dict[str, Any] | None:
    """Return the TaskError of an invalid or failed program as JSON, None for other errors."""
    # Imported here: most commands do not need the evaluator.
    import msgspec

    from weft.evaluator.errors import TaskFailed, program_failure
    from weft.language.diagnostics import InvalidProgram

    if not isinstance(error, InvalidProgram | TaskFailed):
        return None
    found = error.error if isinstance(error, TaskFailed) else program_failure(error)
    document: dict[str, Any] = msgspec.to_builtins(found)
    return document


def _report_as_text(code: str, message: str, problems: Sequence[dict[str, Any]]) -> None:
    from weft.cli.display.output import printable

    echo(f"error: {code}: {printable(message)}", err=True)
    if len(problems) > 1:
        for problem in problems[:MAX_SHOWN_PROBLEMS]:
            where = problem.get("path") or problem.get("field")
            echo(f"  {printable(str(where))}: {printable(str(problem['reason']))}", err=True)
        if len(problems) > MAX_SHOWN_PROBLEMS:
            echo(f"  ... and {len(problems) - MAX_SHOWN_PROBLEMS} more (--json lists all)", err=True)


@contextmanager
def tracing() -> Iterator[None]:
    """Export the telemetry spans of the block if an `OTEL_*` variable is set."""
    if not any(name.startswith("OTEL_") for name in os.environ):
        yield
        return
    # Imported here: slow to import.
    from weft.telemetry.exporting import set_up, shut_down

    problem = set_up()
    if problem is not None:
        echo_status(problem)
    try:
        yield
    finally:
        shut_down()
