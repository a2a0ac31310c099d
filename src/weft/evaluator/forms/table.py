"""Which node is compiled by which form."""

from collections.abc import Mapping

from weft.evaluator.compiler import Form
from weft.evaluator.forms.branching import BRANCHING_FORMS
from weft.evaluator.forms.calls import CALL_FORMS
from weft.evaluator.forms.loops import LOOP_FORMS
from weft.evaluator.forms.names import NAME_FORMS
from weft.language.tree import Node

FORMS: Mapping[type[Node], Form] = {**NAME_FORMS, **BRANCHING_FORMS, **CALL_FORMS, **LOOP_FORMS}
