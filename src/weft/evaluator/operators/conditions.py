"""Conditions of cases and loops: true or false, or an error with its place."""

from collections.abc import Callable

from weft.evaluator.compiler import Compiler
from weft.evaluator.env import Env
from weft.evaluator.operators.steps import mistake
from weft.evaluator.values import kind_of
from weft.language.expressions import ConditionError
from weft.language.tree import Condition


def compiled_condition(compiler: Compiler, condition: Condition) -> Callable[[Env], bool]:
    """The condition as a test of an environment; raises ProgramError, which `try` catches."""
    code = compiler.compile(condition)

    def holds(env: Env) -> bool:
        try:
            value = code(env)
        except ConditionError as error:
            raise mistake(error.problem.code, error.problem.message, error.span) from None
        if not isinstance(value, bool):
            message = f"a condition must be true or false; '{condition.text}' is {kind_of(value)}"
            raise mistake("wrong-type", message, condition.span)
        return value

    return holds
