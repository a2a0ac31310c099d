"""Which operator compiles which node."""

from collections.abc import Mapping

from weft.evaluator.compiler import Form
from weft.evaluator.operators.atomic import atomic
from weft.evaluator.operators.director_loop import director_evaluator_loop
from weft.evaluator.operators.reduce import reduce
from weft.evaluator.operators.reference import reference
from weft.evaluator.operators.script import script
from weft.evaluator.operators.sequential import sequential
from weft.evaluator.operators.task_cond import task_cond
from weft.evaluator.operators.template import template
from weft.language.tree import (
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

OPERATORS: Mapping[type[Node], Form] = {
    Atomic: atomic,
    Script: script,
    Sequential: sequential,
    Reduce: reduce,
    DirectorEvaluatorLoop: director_evaluator_loop,
    Reference: reference,
    TaskCond: task_cond,
    Template: template,
}
