"""Evaluations on the command line: what they may use, and how they are interrupted."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeVar

import click

from weft.cli.text import printable
from weft.evaluator.budget import EvaluationLimits
from weft.evaluator.evaluator import Evaluator
from weft.language.loading import load_definitions
from weft.local_effects import LocalEffects

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

    Ctrl-C raises KeyboardInterrupt at once, wherever the program is: asyncio's own handler waits until the
    event loop has its turn, and a pure program never gives it one. What is under way is cancelled then, and
    scripts are ended with it.
    """
    handlers = {signal.SIGINT: _interrupt, signal.SIGTERM: _terminate}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        return asyncio.run(work())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_message(message: str) -> None:
    for line in message.splitlines() or [""]:
        click.echo(printable(line), err=True)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
