"""Evaluations on the command line: what they may use, and how they are interrupted."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import click
from greenlet import getcurrent

from weft.cli.text import printable
from weft.evaluator.budget import EvaluationLimits
from weft.evaluator.evaluator import Evaluator
from weft.evaluator.machine import Branch
from weft.local_effects import LocalEffects
from weft.program_files import load_definitions

T = TypeVar("T")


async def new_evaluator(
    libraries: tuple[str, ...], max_steps: int | None, timeout_seconds: float | None
) -> Evaluator:
    """An evaluator that knows the templates and functions of the libraries; scripts run here."""
    limits = EvaluationLimits(seconds=timeout_seconds)
    if max_steps is not None:
        limits = EvaluationLimits(steps=max_steps, seconds=timeout_seconds)
    effects = LocalEffects(log_message=_print_message)
    evaluator = Evaluator(effects, limits=limits)
    if libraries:
        await evaluator.evaluate(load_definitions([Path(library) for library in libraries]))
    return evaluator


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of the work, in an event loop of its own.

    Ctrl-C raises KeyboardInterrupt, SIGTERM SystemExit: in the middle of a program at once, for a pure one
    never gives the event loop a turn. Anywhere else the work is cancelled at the loop's next turn: to raise
    there could lose a script that is just being started.
    """
    stopped_by: list[int] = []

    async def stoppable() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def stop(number: int, frame: FrameType | None) -> None:
            if stopped_by or task is None or isinstance(getcurrent(), Branch):
                raise _interruption(number)
            stopped_by.append(number)
            loop.call_soon_threadsafe(task.cancel)

        for number in before:
            signal.signal(number, stop)
        return await work()

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return asyncio.run(stoppable())
    except asyncio.CancelledError:
        if not stopped_by:
            raise
        raise _interruption(stopped_by[0]) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_message(message: str) -> None:
    for line in message.splitlines() or [""]:
        click.echo(printable(line), err=True)


def _interruption(number: int) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
