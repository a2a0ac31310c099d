"""The definition of a template: evaluating it puts it into the task library."""

from weft.evaluator.compiler import Compiler
from weft.evaluator.env import Env
from weft.evaluator.forms.names import check_bindable, check_distinct
from weft.evaluator.functions import Code
from weft.language.library import DuplicateTask, definition_of
from weft.language.problems import refuse
from weft.language.tree import Template


def template(compiler: Compiler, node: Template, is_tail: bool) -> Code:
    """Compile a definition; its value is nil."""
    check_bindable(node.name, node.span)
    check_distinct(tuple(parameter.name for parameter in node.parameters), node.span)

    def run(env: Env) -> None:
        known = compiler.library.tasks.get(node.name)
        if known is not None and known.template is node:
            return
        try:
            compiler.library.register_task(definition_of(node))
        except DuplicateTask as error:
            raise refuse(node.span, "duplicate-name", error.message) from None

    return run
