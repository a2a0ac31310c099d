"""A repl session: an evaluator that keeps its definitions between inputs."""

import asyncio
from collections.abc import Mapping
from typing import Any, Self

from weft.cli.display.values import print_usage
from weft.cli.eval import ShownEvaluation, run
from weft.evaluator.builtins import BUILT_INS
from weft.language.ast import Program, Template
from weft.language.library import TaskDefinition, TaskLibrary
from weft.language.sexp import read_program
from weft.language.source import Source


class Session:
    """Evaluates programs one after another; later ones can use what earlier ones defined."""

    def __init__(self, evaluation: ShownEvaluation) -> None:
        self._evaluation = evaluation
        self._evaluator = evaluation.evaluator
        self._runner = (
            asyncio.Runner()
        )  # one loop for all inputs: connections and models are bound to their loop

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
        return self._evaluator.library

    @property
    def bindings(self) -> dict[str, Any]:
        """Return the names bound in this session, without built-in ones."""
        known = self._evaluator.global_env
        return {name: known[name] for name in known if name not in BUILT_INS and name != "taskLibrary"}

    def bind(self, bindings: Mapping[str, Any]) -> None:
        """Bind names before the first input; programs may redefine them."""
        self._evaluator.bind(bindings)

    def evaluate_text(self, text: str) -> Any:
        return self.evaluate(read_program(Source("<repl>", text)))

    def evaluate(self, program: Program) -> Any:
        """Return the value of a program.

        A template may be redefined; the old definition is kept if the new one is invalid.
        """
        tasks = self.library.tasks
        names = [form.name for form in program.forms if isinstance(form, Template)]
        replaced: dict[str, TaskDefinition] = {name: tasks.pop(name) for name in names if name in tasks}
        try:
            return self._run(program)
        finally:
            for name, definition in replaced.items():
                tasks.setdefault(name, definition)

    def _run(self, program: Program) -> Any:
        ledger = self._evaluation.ledger
        ledger.entries.clear()
        try:
            return run(lambda: self._evaluation.evaluate(program, {}), self._runner)
        except KeyboardInterrupt:
            self._replace_busy_loop()
            raise
        finally:
            self._evaluation.display.end()
            if ledger.entries:
                print_usage(ledger, as_tree=False)

    def _replace_busy_loop(self) -> None:
        """Switch to a new event loop if tasks are left in the old one: they would run with the next input."""
        if asyncio.all_tasks(self._runner.get_loop()):
            run(self._evaluation.close, self._runner)
            self._runner.close()
            self._runner = asyncio.Runner()
