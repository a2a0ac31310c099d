"""The reduce task: runs the inner task for all inputs concurrently, then folds the results in order."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from weft.evaluator.compiler import Compiler
from weft.evaluator.environment import Env
from weft.evaluator.errors import TaskFailed
from weft.evaluator.operators.context import SequentialHistory, current_context, partial_results, use_context
from weft.evaluator.operators.steps import part_failed
from weft.evaluator.operators.task import Entered, TaskCode, as_task_result
from weft.evaluator.results import TaskResult
from weft.language.ast import Node, Reduce
from weft.language.task_fields import IMPLICIT_INPUT


class ReduceTask(TaskCode):
    """A compiled reduce task."""

    node: Reduce

    def __init__(self, compiler: Compiler, node: Reduce) -> None:
        super().__init__(compiler, node, "reduce")
        self._initial = None if node.initial_value is None else compiler.compile(node.initial_value)
        self._inner = compiler.compile(cast(Node, node.inner_task))  # a rule of tasks requires both
        self._reduction = compiler.compile(cast(Node, node.reduction_task))

    def run(self, env: Env) -> TaskResult:
        entered = self.enter(env)
        initial = self.initial_value(env)
        history = SequentialHistory(self.settings)
        return self.compose(entered, lambda: self.fold(entered, initial, history))

    def withheld(self, inputs: Mapping[str, Any], own: Mapping[str, Any]) -> frozenset[str]:
        """Return also all inputs of the task: each run of the inner task gets only one of them."""
        return super().withheld(inputs, own).union(own)

    def initial_value(self, env: Env) -> Any:
        """Return the initial accumulator, evaluated in the environment of the task, like inputs."""
        value = None if self._initial is None else self._initial(env)
        return value.value if isinstance(value, TaskResult) else value

    def fold(self, entered: Entered, initial: Any, history: SequentialHistory) -> TaskResult:
        """Return the result of the last reduction, or the initial value if there are no inputs."""
        originals = list(entered.own.values())
        currents = self._inner_results(entered)
        accumulator: Any = initial
        last = as_task_result(initial, self.node.span)
        with use_context(msgspec.structs.replace(current_context(), history=history)):
            for index, (original, current) in enumerate(zip(originals, currents, strict=True)):
                env = entered.inner.child(
                    current_result=current, accumulator=accumulator, original_input=original
                )
                try:
                    last = as_task_result(self._reduction(env), self.node.span)
                except TaskFailed as error:
                    raise self._failed(
                        error, "reduction", index, entered, history.partial_results()
                    ) from error
                history.add(f"reduction of {list(entered.own)[index]}", last)
                accumulator = last.value
        return last

    def _inner_results(self, entered: Entered) -> list[Any]:
        """Return the results of the inner task for all inputs."""
        done: dict[int, Any] = {}
        inputs = list(entered.own.items())

        def run(index: int) -> Any:
            name, value = inputs[index]
            try:
                done[index] = self._inner(entered.inner.child(**{name: value, IMPLICIT_INPUT: value}))
            except TaskFailed as error:
                finished = {step: as_task_result(value, self.node.span) for step, value in done.items()}
                partial = partial_results(finished)
                raise self._failed(error, "inner task", index, entered, partial) from error
            return done[index]

        return self.compiler.machine.each(len(inputs), run)

    def _failed(
        self, error: TaskFailed, part: str, index: int, entered: Entered, partial: list[dict[str, Any]]
    ) -> TaskFailed:
        total = len(entered.own)
        details = {"failedStep": index, "totalSteps": total, "partialResults": partial}
        return part_failed(
            error, f"the {part} failed for input {index + 1} of {total}", self.node.span, details
        )
