"""What is printed for people: every text passes `echo`, so that nothing in it moves the cursor or hides.

What is said beside the output, on standard error, is never worth failing for.
"""

import errno
import logging
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

import click

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""C0 but for line breaks and tabs, DEL, C1, and what changes the direction of text."""


class Styled(str):
    """A text with weft's own escape sequences; only `styled` makes one."""

    __slots__ = ()


def clean(text: str) -> str:
    """Return the text with control characters escaped: results, names, files and models may hold any."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n"))


def styled(text: str, **style: Any) -> Styled:
    """Return the text, cleaned, in weft's own colours."""
    return Styled(click.style(clean(text), **style))


def echo(*parts: str, err: bool = False, nl: bool = True) -> None:
    """Print the parts one after the other; all but the styled ones are cleaned."""
    text = "".join(part if isinstance(part, Styled) else clean(part) for part in parts)
    click.echo(text, err=err, nl=nl)


class _CleanFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return clean(super().format(record))


def clean_logs() -> None:
    """Escape control characters in the warnings that a command logs: they quote what others wrote."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_CleanFormatter())


def say(text: str) -> None:
    """Say a line; when nobody can hear it, be quiet from then on."""
    # Imported here: `weft --help` says nothing.
    from weft.secrets.registry import redact

    with heard_or_not():
        echo(redact(text), err=True)


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
