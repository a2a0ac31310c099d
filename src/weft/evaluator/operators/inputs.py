"""The inputs of a task: evaluated where the task stands, concurrently where they wait."""

from typing import Any

from weft.evaluator.compiler import Compiler
from weft.evaluator.context import passed_value
from weft.evaluator.env import Env
from weft.evaluator.functions import Code
from weft.evaluator.operators.steps import at
from weft.evaluator.operators.texts import FilledText, require_bound
from weft.evaluator.results import TaskResult
from weft.language.spans import Span
from weft.language.task_fields import IMPLICIT_INPUT
from weft.language.tree import FunctionCall, Literal, Node, TaskNode, Text, Variable


class Inputs:
    """The inputs of a task, compiled."""

    def __init__(self, compiler: Compiler, node: TaskNode) -> None:
        self._compiler = compiler
        self._source = node.input_source
        self._span = node.span
        self._inputs = [
            (one, None if one.value is None else _code(compiler, one.value)) for one in node.inputs
        ]

    def evaluate(self, env: Env) -> dict[str, Any]:
        """The values by name, in the order they are written."""
        if not self._inputs and self._source is None:
            return {}
        found: dict[str, Any] = {}
        open_inputs: list[tuple[str, Code | None, Node | None]] = []
        for one, code in self._inputs:
            is_passed, value = passed_value(env, one.name) if one.is_open else (False, None)
            found[one.name] = value
            if not is_passed:
                open_inputs.append((one.name, code, one.value))
        self._require_names(env, open_inputs)
        found.update(self._values(env, open_inputs))
        if self._source is not None and IMPLICIT_INPUT not in found:
            source = env[self._source]
            found[IMPLICIT_INPUT] = source.content if isinstance(source, TaskResult) else source
        return found

    def _require_names(self, env: Env, wanted: list[tuple[str, Code | None, Node | None]]) -> None:
        """Raise one error that lists every name which inputs are taken from and nothing binds."""
        names: dict[str, Span] = {}
        for name, code, node in wanted:
            if code is None:
                names[name] = self._span
            elif isinstance(node, Variable):
                names[node.name] = node.span
        if self._source is not None:
            names[self._source] = self._span
        require_bound(names, env, self._compiler.library)

    def _values(self, env: Env, wanted: list[tuple[str, Code | None, Node | None]]) -> dict[str, Any]:
        """The values; those that may wait are evaluated together."""
        found: dict[str, Any] = {}
        waiting: list[tuple[str, Code]] = []
        for name, code, node in wanted:
            if code is None:
                found[name] = env[name]
            elif node is None or _is_immediate(node):
                found[name] = code(env)
            else:
                waiting.append((name, code))
        if len(waiting) == 1:
            found[waiting[0][0]] = waiting[0][1](env)
        elif waiting:
            thunks = [lambda code=code: code(env) for _, code in waiting]
            with at(self._span):
                values = self._compiler.machine.all(thunks)
            found.update(zip((name for name, _ in waiting), values, strict=True))
        return found


def _code(compiler: Compiler, node: Node) -> Code:
    if isinstance(node, Text):
        return FilledText(compiler, node).fill
    return compiler.compile(node)


def _is_immediate(node: Node) -> bool:
    """Whether evaluating the node cannot wait."""
    if isinstance(node, Text):
        return not any(isinstance(part, FunctionCall) for part in node.parts)
    return isinstance(node, Literal | Variable)
