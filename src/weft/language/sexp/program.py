"""Text to program."""

from weft.collector import paused_collector
from weft.language.deep import deep_stack
from weft.language.problems import InvalidProgram, in_order
from weft.language.sexp.former import Former, TooManyProblems
from weft.language.sexp.plain_forms import PLAIN_FORMS
from weft.language.sexp.reader import read_data
from weft.language.sexp.task_forms import TASK_FORMS
from weft.language.spans import Source
from weft.language.tree import Node, Program

SPECIAL_FORMS = {**PLAIN_FORMS, **TASK_FORMS}

_PARTS = {"catch": "try", "else": "cond"}
"""Words that have a meaning inside a form only."""


def why_no_value(name: str) -> str | None:
    """Why a name that a form is written with is not bound; None: it is no such name."""
    if name in _PARTS:
        return f"it is a part of a form: {SPECIAL_FORMS[_PARTS[name]].shape}"
    form = SPECIAL_FORMS.get(name)
    return f"it is a form, no function: {form.shape}" if form is not None else None


def read_program(source: Source) -> Program:
    """The program that a text is; raises InvalidProgram with everything that is wrong with it."""
    former = Former(SPECIAL_FORMS)
    forms: list[Node] = []
    with paused_collector(), deep_stack():
        reading = read_data(source)
        try:
            if reading.is_whole:
                forms.extend(former.expression(datum, is_in_body=True) for datum in reading.data)
        except TooManyProblems:
            pass
    found = [*reading.problems, *former.problems]
    if found:
        raise InvalidProgram(in_order(found))
    return Program(tuple(forms))
