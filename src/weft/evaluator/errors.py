"""How an evaluation fails."""

from typing import Any

import msgspec

from weft.errors import AuthorError
from weft.evaluator.results import TaskError, TaskResult
from weft.language.problems import LanguageProblem
from weft.language.spans import NOWHERE, Span


class TaskFailed(AuthorError):
    """A task failed, or an expression is wrong at run time. `try` catches it as a FAILED TaskResult."""

    code = "task-failed"
    exit_code = 1

    def __init__(self, error: TaskError, *, span: Span = NOWHERE, code: str = "task-failed") -> None:
        self.problem = LanguageProblem(span, code, error.message)
        super().__init__(error.message if span is NOWHERE else self.problem.excerpt())
        self.error = error
        self.span = span

    def result(self) -> TaskResult:
        """The failed result that `catch` receives."""
        error: dict[str, Any] = msgspec.to_builtins(self.error)
        return TaskResult(content=self.error.content or "", status="FAILED", notes={"error": error})

    def problems(self) -> list[dict[str, Any]]:
        """Where it happened, if that is known."""
        return [] if self.span is NOWHERE else [self.problem.as_json()]


class ProgramError(TaskFailed):
    """A mistake of the program that shows at run time: unbound name, wrong arity, wrong type, a bad value."""

    code = "program-error"
