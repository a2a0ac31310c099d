"""A session: what was defined so far."""

from typing import Any

from weft.cli.evaluating import run
from weft.evaluator.builtins import BUILT_INS
from weft.evaluator.evaluator import Evaluator
from weft.language.library import TaskDefinition, TaskLibrary
from weft.language.sexp import read_program
from weft.language.spans import Source
from weft.language.tree import Program, Template


class Session:
    """Evaluates programs one after the other; what one defines, the next can use."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator

    @property
    def library(self) -> TaskLibrary:
        """The templates that were defined."""
        return self._evaluator.library

    @property
    def bindings(self) -> dict[str, Any]:
        """The names that were bound, without the built-in ones."""
        known = self._evaluator.global_env
        return {name: known[name] for name in known if name not in BUILT_INS and name != "taskLibrary"}

    def evaluate_text(self, text: str) -> Any:
        """The value of expressions."""
        return self.evaluate(read_program(Source("<repl>", text)))

    def evaluate(self, program: Program) -> Any:
        """The value of a program. A template may be defined again; it is kept when the new one is refused."""
        tasks = self.library.tasks
        names = [form.name for form in program.forms if isinstance(form, Template)]
        replaced: dict[str, TaskDefinition] = {name: tasks.pop(name) for name in names if name in tasks}
        try:
            return run(lambda: self._evaluator.evaluate(program))
        finally:
            for name, definition in replaced.items():
                tasks.setdefault(name, definition)
