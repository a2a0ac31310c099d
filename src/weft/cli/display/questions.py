"""Ask the person at the terminal, and report a run that waits for one."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence

from weft.cli.display.output import printable
from weft.cli.invoke import echo, say
from weft.evaluator.tools import ANSWERED_ELSEWHERE
from weft.tasks.questions import question_text
from weft.tasks.record import JsonObject, Task

MAX_LINE_BYTES = 65536
"""More than a terminal gives of a line at once."""


class TerminalLock:
    """What is shown on the terminal lets it go while somebody is asked there."""

    def __init__(self) -> None:
        self.is_asking = False
        self.let_go: Callable[[], None] = _nothing
        """Takes away what is shown now."""

    def __enter__(self) -> None:
        self.is_asking = True
        self.let_go()

    def __exit__(self, *_: object) -> None:
        self.is_asking = False


def _nothing() -> None:
    pass


def is_person_here() -> bool:
    """Whether somebody is at a terminal who can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def person_to_ask(quiet: TerminalLock | None = None) -> Callable[[str], Awaitable[str]] | None:
    """How to ask; None where nobody is at a terminal. One question at a time."""
    if not is_person_here():
        return None
    lock = asyncio.Lock()
    shown = quiet or TerminalLock()

    async def ask(question: str) -> str:
        async with lock:
            with shown:
                return await _ask(question)

    return ask


async def _ask(question: str) -> str:
    for line in question.splitlines() or [""]:
        echo(printable(line), err=True)
    echo("> ", nl=False, err=True)
    try:
        return await _line()
    except asyncio.CancelledError as cancelled:
        # What is shown next begins a line of its own.
        echo("answered elsewhere" if ANSWERED_ELSEWHERE in cancelled.args else "", err=True)
        raise


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


def tell_what_is_asked(questions: Sequence[Task], *, then: str) -> None:
    """Say what is asked, how to answer, and which command goes on afterwards."""
    for question in questions:
        say(f"waits for an answer: {printable(question_text(question))}")
        say(f"answer with: weft tasks answer {question.id} TEXT")
    say(f"then go on with: {then}")


def asked_json(questions: Sequence[Task]) -> JsonObject:
    """The part of a JSON document that says so; empty: nobody is asked anything."""
    asked = [{"id": task.id, "question": question_text(task)} for task in questions]
    return {"questions": asked} if asked else {}
