"""A session: what was defined so far."""

import asyncio
from collections.abc import Mapping
from typing import Any, Self

from weft.cli.display.values import print_usage
from weft.cli.eval import Evaluation, run
from weft.evaluator.builtins import BUILT_INS
from weft.language.ast import Program, Template
from weft.language.library import TaskDefinition, TaskLibrary
from weft.language.sexp import read_program
from weft.language.source import Source


class Session:
    """Evaluates programs one after the other; what one defines, the next can use."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation
        self._evaluator = evaluation.evaluator
        self._runner = asyncio.Runner()  # one loop for all: connections and models belong to theirs

    def __enter__(self) -> Self:
        try:
            run(self._evaluation.load, self._runner)
        except BaseException:
            self._runner.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            run(self._evaluation.close, self._runner)
        finally:
            self._runner.close()

    @property
    def library(self) -> TaskLibrary:
        """The templates that were defined."""
        return self._evaluator.library

    @property
    def bindings(self) -> dict[str, Any]:
        """The names that were bound, without the built-in ones."""
        known = self._evaluator.global_env
        return {name: known[name] for name in known if name not in BUILT_INS and name != "taskLibrary"}

    def bind(self, bindings: Mapping[str, Any]) -> None:
        """Bind names from outside; programs may define them again."""
        self._evaluator.bind(bindings)

    def evaluate_text(self, text: str) -> Any:
        """The value of expressions."""
        return self.evaluate(read_program(Source("<repl>", text)))

    def evaluate(self, program: Program) -> Any:
        """The value of a program. A template may be defined again; it is kept when the new one is refused."""
        tasks = self.library.tasks
        names = [form.name for form in program.forms if isinstance(form, Template)]
        replaced: dict[str, TaskDefinition] = {name: tasks.pop(name) for name in names if name in tasks}
        try:
            return self._run(program)
        finally:
            for name, definition in replaced.items():
                tasks.setdefault(name, definition)

    def _run(self, program: Program) -> Any:
        ledger, narrator = self._evaluation.effects.ledger, self._evaluation.narrator
        ledger.entries.clear()
        try:
            self._evaluation.require_sound(program, ())
            self._evaluation.require_models(program)
            return run(lambda: self._evaluate(program), self._runner)
        except KeyboardInterrupt:
            self._clear_up()
            raise
        finally:
            narrator.end()
            if ledger.entries:
                print_usage(ledger, as_tree=False)

    async def _evaluate(self, program: Program) -> Any:
        await self._evaluation.require_files(program, {})
        return await self._evaluator.evaluate(program)

    def _clear_up(self) -> None:
        """Go on in a new loop if something is left in the old one: it would run along with the next input."""
        if asyncio.all_tasks(self._runner.get_loop()):
            run(self._evaluation.close, self._runner)
            self._runner.close()
            self._runner = asyncio.Runner()
