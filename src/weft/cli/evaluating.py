"""Evaluations on the command line: what they may use, and how they are interrupted."""

import asyncio
import os
import signal
from collections.abc import Callable, Collection, Coroutine, Mapping
from types import FrameType
from typing import Any, TypeVar

from greenlet import getcurrent
from msgspec import Struct, structs

from weft.asked_models import require_models
from weft.cli.asking import person_to_ask
from weft.cli.indexing import IndexingLine
from weft.cli.models_fetch import fetch_model
from weft.cli.narrating import Narrator
from weft.cli.saying import echo
from weft.cli.text import printable
from weft.evaluation import require_sound
from weft.evaluator.branches import Branch
from weft.evaluator.budget import EvaluationLimits
from weft.evaluator.evaluator import Evaluator
from weft.language.certain_files import certain_files
from weft.language.tree import Define, Program
from weft.local_effects import LocalEffects
from weft.program_files import library_path, load_definitions
from weft.settings import load_settings

T = TypeVar("T")


class EvaluationOptions(Struct, frozen=True, kw_only=True):
    """What the options of a command say of its evaluations."""

    libraries: tuple[str, ...] = ()
    max_steps: int | None = None
    timeout_seconds: float | None = None
    model: str | None = None
    budget_tokens: int | None = None
    budget_cost: float | None = None
    is_streaming: bool = False

    def limits(self) -> EvaluationLimits:
        """What an evaluation may use."""
        limits = EvaluationLimits(
            seconds=self.timeout_seconds, tokens=self.budget_tokens, cost=self.budget_cost
        )
        return limits if self.max_steps is None else structs.replace(limits, steps=self.max_steps)


class Evaluation:
    """An evaluator that knows the templates and functions of the libraries, and the effects it uses."""

    def __init__(self, options: EvaluationOptions) -> None:
        self._options = options
        self.narrator = Narrator()
        self._indexing = IndexingLine()
        self.effects = LocalEffects(
            log_message=_print_message,
            model=options.model,
            on_event=self.narrator.tell,
            is_streaming=options.is_streaming,
            ask_person=person_to_ask(),
            fetch=fetch_model,
            on_indexing=self._indexing.tell,
            is_from_here=True,
        )
        self.evaluator = Evaluator(self.effects, limits=options.limits())
        self._functions: list[Define] = []

    def require_models(self, program: Program) -> None:
        """Raise ModelUnusable when a model that the program may ask cannot be asked."""
        require_models(
            program.forms,
            self.evaluator.library,
            lambda: load_settings().models,
            os.environ,
            model=self._options.model,
            functions=self._functions,
        )

    async def require_files(self, program: Program, bindings: Mapping[str, Any]) -> None:
        """Raise TaskFailed when a file that the program certainly reads is not there."""
        definitions = [*(one.template for one in self.evaluator.library), *self._functions]
        await self.effects.require_files(certain_files(program.forms, definitions, bindings))

    async def load(self) -> None:
        """Load the libraries."""
        libraries = [library_path(library) for library in self._options.libraries]
        if libraries:
            definitions = load_definitions(libraries)
            self._functions = [form for form in definitions.forms if isinstance(form, Define)]
            await self.evaluator.evaluate(definitions)

    def require_sound(self, program: Program, bindings: Collection[str]) -> None:
        """Raise InvalidProgram with everything that is known to be wrong, before the first effect."""
        require_sound(program, self.evaluator, self.effects, bindings, self._functions)

    async def close(self) -> None:
        """Let go of models and tools."""
        self._indexing.end()
        await self.effects.close()


def run(work: Callable[[], Coroutine[Any, Any, T]], runner: asyncio.Runner | None = None) -> T:
    """The result of the work, in an event loop of its own, or in the one of a session.

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
        return asyncio.run(stoppable()) if runner is None else runner.run(stoppable())
    except asyncio.CancelledError:
        if not stopped_by:
            raise
        raise _interruption(stopped_by[0]) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_message(message: str) -> None:
    for line in message.splitlines() or [""]:
        echo(printable(line), err=True)


def _interruption(number: int) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
