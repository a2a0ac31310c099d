"""What is said to people beside the output, on standard error: never worth failing for."""

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

import click


def say(text: str) -> None:
    """Say a line; when nobody can hear it, be quiet from then on."""
    # Imported here: `weft --help` says nothing.
    from weft.secrets.registry import redact

    with heard_or_not():
        click.echo(redact(text), err=True)


@contextmanager
def heard_or_not() -> Iterator[None]:
    """Ignore that standard error cannot be written to: a pipe nobody reads, a terminal that is gone."""
    try:
        yield
    except OSError:
        mute(sys.stderr)


@contextmanager
def read_or_not() -> Iterator[None]:
    """Ignore that nobody reads the output any more: `| head -1` must not decide how a run exits."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        # A terminal that is gone gives EIO, and says no more that it is one.
        is_terminal_gone = error.errno == errno.EIO and stat.S_ISCHR(os.fstat(1).st_mode)
        if not isinstance(error, BrokenPipeError) and not is_terminal_gone:
            raise
        mute(sys.stdout)


def mute(stream: IO[str]) -> None:
    """Let what is written to the stream go nowhere; Python's last flush would else change the exit code."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def open_closed_streams() -> None:
    """Give standard streams that were closed (`2>&-`) a place to go: else the next file takes theirs."""
    while True:
        found = os.open(os.devnull, os.O_RDWR)
        if found > 2:
            os.close(found)
            break
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - it is open as long as we are
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - it is open as long as we are
