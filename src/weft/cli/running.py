"""How every command runs: errors become one line and an exit code, never a traceback."""

import asyncio
import io
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click

from weft.cli.saying import echo, mute
from weft.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_INVALID, AuthorError, OutOfMemory, WeftError

if TYPE_CHECKING:
    from weft.app import App
    from weft.engine.limits import EngineLimits
    from weft.executors.registry import ExecutorRegistry
    from weft.runs.executor import NewEffects

T = TypeVar("T")

MAX_SHOWN_PROBLEMS = 50
"""How many problems are printed for people; --json prints them all."""


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
    """Open the store, act on it, close it. Only what stores tasks makes a store where there is none."""
    # Imported here: `weft --help` must not pay for it.
    from weft.app import App
    from weft.collector import rarer_collector

    async def run() -> T:
        asyncio.get_running_loop().set_exception_handler(_without_cancelled_connections)
        app = await App.open(
            db,
            user_id=user,
            must_exist=must_exist,
            limits=limits,
            executors=executors,
            new_effects=new_effects,
        )
        rarer_collector()
        async with app:
            return await act(app)

    return asyncio.run(run())


def _without_cancelled_connections(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Tell what the loop has to tell, but not its own race: a connection made in the moment of Ctrl-C."""
    if not isinstance(context.get("exception"), asyncio.InvalidStateError):
        loop.default_exception_handler(context)


def guarded(command: click.Command, arguments: Sequence[str]) -> int:
    """Run the command; the result is its exit code."""
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
        # The reader (`head`, a pager) has gone; a second failure at exit would print a traceback.
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
        hint = "this is a bug in weft; set WEFT_DEBUG=1 to see where"
        message = f"{type(error).__name__}: {error} ({hint})"
        _report(is_json=is_json, code="internal-error", message=message)
        return EXIT_FAILED
    return code if isinstance(code, int) else 0


def _system_error(is_json: bool, error: OSError) -> int:
    """Say what the system refused: a file when it names one, for writing to standard output names none."""
    if error.filename is None:
        _report(is_json=False, code="output-failed", message=f"cannot write the output: {error.strerror}")
    else:
        _report(is_json=is_json, code="file-failed", message=f"{error.filename}: {error.strerror}")
    return EXIT_FAILED


def _report_traceback(error: Exception) -> None:
    # Imported here: only who looks for a bug needs it.
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
    """Print an error; if even that cannot be written, the exit code must do."""
    with suppress(OSError, ValueError):
        if is_json:
            from weft.cli.output import print_json

            error: dict[str, Any] = {"code": code, "message": message, "problems": list(problems)}
            print_json({"error": error if task_error is None else {**error, "task_error": task_error}})
            sys.stdout.flush()
        else:
            _report_to_people(code, message, problems)


def _report_to_author(error: AuthorError, *, is_json: bool) -> None:
    """Print what is wrong with a program at its place."""
    from weft.cli.problems import print_error

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
    """Return the TaskError of a program that cannot be read or failed, as JSON."""
    # Imported here: commands that run no program must not pay for the evaluator.
    import msgspec

    from weft.evaluator.errors import TaskFailed, program_failure
    from weft.language.problems import InvalidProgram

    if not isinstance(error, InvalidProgram | TaskFailed):
        return None
    found = error.error if isinstance(error, TaskFailed) else program_failure(error)
    told: dict[str, Any] = msgspec.to_builtins(found)
    return told


def _report_to_people(code: str, message: str, problems: Sequence[dict[str, Any]]) -> None:
    from weft.cli.text import printable

    echo(f"error: {code}: {printable(message)}", err=True)
    if len(problems) > 1:
        for problem in problems[:MAX_SHOWN_PROBLEMS]:
            where = problem.get("path") or problem.get("field")
            echo(f"  {printable(str(where))}: {printable(str(problem['reason']))}", err=True)
        if len(problems) > MAX_SHOWN_PROBLEMS:
            echo(f"  ... and {len(problems) - MAX_SHOWN_PROBLEMS} more (--json lists all)", err=True)
