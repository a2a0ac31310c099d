"""Tables of the forms and operators that compile each type of node."""

from collections.abc import Mapping
from typing import Any

from weft.evaluator.compiler import Compiler, Form
from weft.evaluator.environment import Env
from weft.evaluator.errors import TaskFailed
from weft.evaluator.forms.bindings import NAME_FORMS
from weft.evaluator.forms.calls import CALL_FORMS
from weft.evaluator.forms.control import BRANCHING_FORMS, LOOP_FORMS
from weft.evaluator.forms.error_locations import with_expression
from weft.evaluator.functions import Code
from weft.evaluator.operators.atomic import compile_atomic
from weft.evaluator.operators.cond import compile_task_cond
from weft.evaluator.operators.director_loop import compile_director_evaluator_loop
from weft.evaluator.operators.reduce import compile_reduce
from weft.evaluator.operators.script import compile_script
from weft.evaluator.operators.sequential import compile_sequential
from weft.evaluator.operators.templates import compile_reference, compile_template
from weft.language.ast import (
    Atomic,
    DirectorEvaluatorLoop,
    Node,
    Reduce,
    Reference,
    Script,
    Sequential,
    TaskCond,
    Template,
)

FORMS: Mapping[type[Node], Form] = {**NAME_FORMS, **BRANCHING_FORMS, **CALL_FORMS, **LOOP_FORMS}


def _add_expressions(form: Form) -> Form:
    """Wrap a form so that errors with only a location also get the expression that failed."""

    def compile_task(compiler: Compiler, node: Any, is_tail: bool) -> Code:
        code = form(compiler, node, is_tail)

        def run(env: Env) -> Any:
            try:
                return code(env)
            except TaskFailed as error:
                if not error.lacks_expression:
                    raise
                raise with_expression(error, node) from error.__cause__

        return run

    return compile_task


_OPERATORS: Mapping[type[Node], Form] = {
    Atomic: compile_atomic,
    Script: compile_script,
    Sequential: compile_sequential,
    Reduce: compile_reduce,
    DirectorEvaluatorLoop: compile_director_evaluator_loop,
    Reference: compile_reference,
    TaskCond: compile_task_cond,
    Template: compile_template,
}

OPERATORS: Mapping[type[Node], Form] = {kind: _add_expressions(form) for kind, form in _OPERATORS.items()}
