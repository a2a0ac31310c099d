"""Questions of tools to the person at the terminal."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable

import click

from weft.cli.text import printable

MAX_LINE_BYTES = 65536
"""More than a terminal gives of a line at once."""


def person_to_ask() -> Callable[[str], Awaitable[str]] | None:
    """How to ask; None where nobody is at a terminal. One question at a time."""
    if sys.stdin is None or not sys.stdin.isatty() or not sys.stderr.isatty():
        return None
    lock = asyncio.Lock()

    async def ask(question: str) -> str:
        async with lock:
            for line in question.splitlines() or [""]:
                click.echo(printable(line), err=True)
            click.echo("> ", nl=False, err=True)
            try:
                return await _line()
            except asyncio.CancelledError:
                click.echo(err=True)  # what is shown next begins a line of its own
                raise

    return ask


async def _line() -> str:
    """The next line that is typed.

    Nothing is read before there is something to read: a thread that waits in a read cannot be called off,
    and would take the line that is typed for the next question, or for the session.
    """
    loop = asyncio.get_running_loop()
    terminal = sys.stdin.fileno()
    typed = b""
    while not typed.endswith(b"\n"):
        is_typed = asyncio.Event()
        loop.add_reader(terminal, is_typed.set)
        try:
            await is_typed.wait()
        finally:
            loop.remove_reader(terminal)
        piece = os.read(terminal, MAX_LINE_BYTES)
        if not piece:
            break  # Ctrl-D on an empty line
        typed += piece
    return typed.decode(sys.stdin.encoding or "utf-8", "replace").removesuffix("\n")
