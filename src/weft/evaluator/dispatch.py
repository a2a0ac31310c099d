"""Which form or operator compiles which node."""

from collections.abc import Mapping
from typing import Any

from weft.evaluator.compiler import Compiler, Form
from weft.evaluator.environment import Env
from weft.evaluator.errors import TaskFailed
from weft.evaluator.forms.bindings import NAME_FORMS
from weft.evaluator.forms.calls import CALL_FORMS
from weft.evaluator.forms.control import BRANCHING_FORMS, LOOP_FORMS
from weft.evaluator.forms.error_locations import expressed
from weft.evaluator.functions import Code
from weft.evaluator.operators.atomic import atomic
from weft.evaluator.operators.cond import task_cond
from weft.evaluator.operators.director_loop import director_evaluator_loop
from weft.evaluator.operators.reduce import reduce
from weft.evaluator.operators.script import script
from weft.evaluator.operators.sequential import sequential
from weft.evaluator.operators.templates import reference, template
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


def _telling(form: Form) -> Form:
    """Compile as the form does, and put the expression that failed into errors that only have its place."""

    def compile_task(compiler: Compiler, node: Any, is_tail: bool) -> Code:
        code = form(compiler, node, is_tail)

        def run(env: Env) -> Any:
            try:
                return code(env)
            except TaskFailed as error:
                if not error.lacks_expression:
                    raise
                raise expressed(error, node) from error.__cause__

        return run

    return compile_task


_FORMS: Mapping[type[Node], Form] = {
    Atomic: atomic,
    Script: script,
    Sequential: sequential,
    Reduce: reduce,
    DirectorEvaluatorLoop: director_evaluator_loop,
    Reference: reference,
    TaskCond: task_cond,
    Template: template,
}

OPERATORS: Mapping[type[Node], Form] = {kind: _telling(form) for kind, form in _FORMS.items()}
