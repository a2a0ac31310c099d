"""Text to program."""

from collections.abc import Iterator, Sequence

from weft.gc_tuning import paused_collector
from weft.language.ast import Node, Program
from weft.language.diagnostics import InvalidProgram, Rest, in_order
from weft.language.sexp.forms import PLAIN_FORMS
from weft.language.sexp.names import Constant, Data, List, Name
from weft.language.sexp.parser import Parser, TooManyProblems
from weft.language.sexp.reader import read_data
from weft.language.sexp.tasks import TASK_FORMS
from weft.language.source import Source
from weft.language.traversal import deep_stack

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
    former = Parser(SPECIAL_FORMS)
    forms: list[Node] = []
    wrong: list[Data] = []
    is_read = False
    with paused_collector(), deep_stack():
        reading = read_data(source)
        try:
            for datum in reading.data if reading.is_whole else ():
                before = len(former.problems)
                form = former.expression(datum, is_in_body=True)
                if len(former.problems) == before:
                    forms.append(form)
                else:
                    wrong.append(datum)
            is_read = not reading.problems
        except TooManyProblems:
            pass
    found = [*reading.problems, *former.problems]
    if found:
        rest = Rest(Program(tuple(forms)), frozenset(_mentioned(wrong))) if is_read else None
        raise InvalidProgram(in_order(found), rest=rest)
    return Program(tuple(forms))


def _mentioned(data: Sequence[Data]) -> Iterator[str]:
    """Every name in the data; a text that is the whole of a field may be one too."""
    rest = list(data)
    while rest:
        one = rest.pop()
        if isinstance(one, List):
            rest.extend(one.items)
        elif isinstance(one, Name):
            yield one.name
        elif isinstance(one, Constant) and isinstance(one.value, str) and len(one.value) < 100:
            yield one.value
