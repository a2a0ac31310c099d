"""`ref`: a task that names a registered template."""

from weft.evaluator.compiler import Compiler
from weft.evaluator.env import Env
from weft.evaluator.functions import Code
from weft.evaluator.operators.inputs import Inputs
from weft.evaluator.operators.overrides import settings_of_reference
from weft.evaluator.operators.steps import failed
from weft.evaluator.operators.task import as_task_result
from weft.evaluator.operators.template_calls import call_template
from weft.evaluator.results import TaskFailure, TaskResult
from weft.language.library import UnknownTask
from weft.language.task_fields import IMPLICIT_INPUT
from weft.language.tree import Reference


def reference(compiler: Compiler, node: Reference, is_tail: bool) -> Code:
    """Compile a reference. The template is looked up when it is called: it may be registered later."""
    inputs = Inputs(compiler, node)
    changes = settings_of_reference(node)
    explicit = {one.name for one in node.inputs}

    def run(env: Env) -> TaskResult:
        try:
            definition = compiler.library.get_task(node.ref)
        except UnknownTask as error:
            raise failed(TaskFailure("template_not_found", error.message), node.span) from None
        given = inputs.evaluate(env)
        if IMPLICIT_INPUT not in explicit and IMPLICIT_INPUT not in definition.metadata["parameters"]:
            given.pop(IMPLICIT_INPUT, None)
        value = call_template(compiler, definition, (), given, node.span, changes)
        result = as_task_result(value, node.span)
        if node.output_slot is not None:
            env[node.output_slot] = result
        return result

    return run
