"""Ask the person at the terminal, and report questions that wait for an answer."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence

from weft.cli.display.output import printable
from weft.cli.invoke import echo, echo_status
from weft.evaluator.tools import ANSWERED_ELSEWHERE
from weft.tasks.questions import question_text
from weft.tasks.record import JsonObject, Task

MAX_LINE_BYTES = 65536
"""How many bytes to read at once: more than a terminal delivers in one read."""


class TerminalLock:
    """Reserves the terminal for a question: the live view is cleared and paused inside the block."""

    def __init__(self) -> None:
        self.is_asking = False
        self.clear_view: Callable[[], None] = lambda: None
        """Clears the live view."""

    def __enter__(self) -> None:
        self.is_asking = True
        self.clear_view()

    def __exit__(self, *_: object) -> None:
        self.is_asking = False


def is_person_here() -> bool:
    """Return whether standard input and standard error are a terminal."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def person_to_ask(terminal: TerminalLock | None = None) -> Callable[[str], Awaitable[str]] | None:
    """Return a function that asks one question at a time on the terminal; None without a terminal."""
    if not is_person_here():
        return None
    lock = asyncio.Lock()
    reserved = terminal or TerminalLock()

    async def ask(question: str) -> str:
        async with lock:
            with reserved:
                return await _ask(question)

    return ask


async def _ask(question: str) -> str:
    for line in question.splitlines() or [""]:
        echo(printable(line), err=True)
    echo("> ", nl=False, err=True)
    try:
        return await _read_line()
    except asyncio.CancelledError as cancelled:
        # The next output begins on a new line.
        echo("answered elsewhere" if ANSWERED_ELSEWHERE in cancelled.args else "", err=True)
        raise


async def _read_line() -> str:
    """Return the next typed line.

    Waits with the event loop, not in a thread: a thread blocked in a read cannot be cancelled, and would
    consume the line that is typed for the next question.
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


def echo_questions(questions: Sequence[Task], *, then: str) -> None:
    """Print the questions, how to answer them, and the command that resumes the run afterwards."""
    for question in questions:
        echo_status(f"waiting for an answer: {printable(question_text(question))}")
        echo_status(f"answer with: weft tasks answer {question.id} TEXT")
    echo_status(f"then resume with: {then}")


def questions_json(questions: Sequence[Task]) -> JsonObject:
    """Return the field `questions` of a JSON document; empty if there are none."""
    found = [{"id": task.id, "question": question_text(task)} for task in questions]
    return {"questions": found} if found else {}
