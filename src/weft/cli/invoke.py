"""Run a command: print its text, and turn errors into one line and an exit code.

Status lines go to standard error; a failure to write them never fails the command.
"""

import errno
import logging
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from typing import IO, Any

import click

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


def run_command(command: click.Command, arguments: Sequence[str]) -> int:
    """Run the command, report its errors, and return the exit code."""
    try:
        code: Any = command.main(list(arguments), prog_name="weft", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (`head`, a pager) has exited; a second failure at exit would print a traceback.
        mute(sys.stdout)
        return 0
    except (Exception, KeyboardInterrupt) as error:
        # Imported here: keeps `weft --help` fast.
        from weft.cli.display.problems import report_error

        is_json = "--json" in takewhile(lambda argument: argument != "--", arguments)
        return report_error(error, is_json=is_json)
    return code if isinstance(code, int) else 0
