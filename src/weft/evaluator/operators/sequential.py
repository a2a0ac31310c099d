"""The sequential task: runs its steps in order, or concurrently if it is parallel."""

from typing import Any

from weft.evaluator.compiler import Compiler
from weft.evaluator.conversion import as_text
from weft.evaluator.environment import Env
from weft.evaluator.errors import TaskFailed
from weft.evaluator.operators.context import SequentialHistory, partial_results
from weft.evaluator.operators.steps import part_failed
from weft.evaluator.operators.task import TaskCode, as_task_result, title_of
from weft.evaluator.results import TaskResult
from weft.language.ast import Sequential


class SequentialTask(TaskCode):
    """A compiled sequential task."""

    node: Sequential

    def __init__(self, compiler: Compiler, node: Sequential) -> None:
        super().__init__(compiler, node, "sequential")
        self._steps = [(step, compiler.compile(step)) for step in node.steps]

    def run(self, env: Env) -> TaskResult:
        entered = self.enter(env)
        if self.node.is_parallel:
            return self.compose(entered, lambda: self.run_parallel(entered.inner))
        history = SequentialHistory(self.settings)
        return self.compose(entered, lambda: self.run_steps(entered.inner, history), history=history)

    def run_steps(self, env: Env, history: SequentialHistory) -> TaskResult:
        """Return the result of the last step; each step sees the outputs before it."""
        for index, (step, code) in enumerate(self._steps):
            env["steps"] = list(history.results)
            if history.results:
                env["last_output"] = history.results[-1].content
            title = title_of(step, env)
            try:
                result = as_task_result(code(env), step.span)
            except TaskFailed as error:
                raise self._failed(error, index, history.partial_results()) from error
            history.add(title, result)
        return history.results[-1].with_notes(steps=history.notes())

    def run_parallel(self, env: Env) -> TaskResult:
        """Return a result whose value is the list of the steps' values; no step sees another's output."""
        done: dict[int, TaskResult] = {}

        def run(index: int) -> TaskResult:
            step, code = self._steps[index]
            try:
                done[index] = as_task_result(code(Env(outer=env)), step.span)
            except TaskFailed as error:
                raise self._failed(error, index, partial_results(done)) from error
            return done[index]

        results = self.compiler.machine.each(len(self._steps), run)
        history = SequentialHistory(self.settings)
        for (step, _), result in zip(self._steps, results, strict=True):
            history.add(title_of(step, env), result)
        return TaskResult(
            content=as_text([result.content for result in results]),
            status="COMPLETE",
            parsed_content=[result.value for result in results],
            notes={"steps": history.notes()},
        )

    def _failed(self, error: TaskFailed, index: int, partial: list[dict[str, Any]]) -> TaskFailed:
        total = len(self._steps)
        details = {"failedStep": index, "totalSteps": total, "partialResults": partial}
        return part_failed(error, f"step {index + 1} of {total} failed", self.node.span, details)
