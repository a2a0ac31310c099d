"""Parser of whole programs in S-expressions."""

from collections.abc import Iterator, Sequence

from weft.gc_tuning import pause_collector
from weft.language.ast import Node, Program
from weft.language.diagnostics import InvalidProgram, PartialProgram, sort_problems
from weft.language.sexp.forms import PLAIN_FORMS
from weft.language.sexp.names import Constant, Data, List, Name
from weft.language.sexp.parser import Parser, TooManyProblems
from weft.language.sexp.reader import read_data
from weft.language.sexp.tasks import TASK_FORMS
from weft.language.source import Source
from weft.language.traversal import raise_recursion_limit

SPECIAL_FORMS = {**PLAIN_FORMS, **TASK_FORMS}

_FORM_PARTS = {"catch": "try", "else": "cond"}
"""Words that only have a meaning inside a special form, with the name of that form."""


def why_no_value(name: str) -> str | None:
    """Explain why a name that belongs to a special form is not bound; None for all other names."""
    if name in _FORM_PARTS:
        return f"it is a part of a form: {SPECIAL_FORMS[_FORM_PARTS[name]].shape}"
    form = SPECIAL_FORMS.get(name)
    return f"it is a form, not a function: {form.shape}" if form is not None else None


def read_program(source: Source) -> Program:
    """Parse a program. Raise InvalidProgram with all problems, and as `partial` the forms without any."""
    parser = Parser(SPECIAL_FORMS)
    forms: list[Node] = []
    wrong: list[Data] = []
    is_read = False
    with pause_collector(), raise_recursion_limit():
        reading = read_data(source)
        try:
            for datum in reading.data if reading.is_whole else ():
                before = len(parser.problems)
                form = parser.expression(datum, is_in_body=True)
                if len(parser.problems) == before:
                    forms.append(form)
                else:
                    wrong.append(datum)
            is_read = not reading.problems
        except TooManyProblems:
            pass
    found = [*reading.problems, *parser.problems]
    if found:
        readable = PartialProgram(Program(tuple(forms)), frozenset(_names_in(wrong))) if is_read else None
        raise InvalidProgram(sort_problems(found), partial=readable)
    return Program(tuple(forms))


def _names_in(data: Sequence[Data]) -> Iterator[str]:
    """Yield the names in the data, and short strings: a name, as after :output-slot, may be a string."""
    pending = list(data)
    while pending:
        one = pending.pop()
        if isinstance(one, List):
            pending.extend(one.items)
        elif isinstance(one, Name):
            yield one.name
        elif isinstance(one, Constant) and isinstance(one.value, str) and len(one.value) < 100:
            yield one.value
