"""Questions of tools to the person at the terminal."""

import asyncio
import sys
from collections.abc import Awaitable, Callable

import click

from weft.cli.text import printable
from weft.threads import run_blocking


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
            return await run_blocking(_line, name="weft-asking")

    return ask


def _line() -> str:
    return sys.stdin.readline().removesuffix("\n")
