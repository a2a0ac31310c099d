"""Check of a run's inputs against the names that its program uses."""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from weft.errors import RequestError
from weft.language.ast import (
    LOOP_NAMES,
    Assign,
    Condition,
    Define,
    DirectorEvaluatorLoop,
    FunctionCall,
    Input,
    Script,
    TaskNode,
    Template,
    Variable,
)
from weft.language.builtins import RESERVED_NAMES
from weft.language.diagnostics import nearest
from weft.language.traversal import structs_in
from weft.runs.program import LoadedProgram

_WORD = re.compile(r"[^\W\d]\w*")


class UnusedInputs(RequestError):
    """The program does not use some of the given inputs."""

    code = "unused-inputs"

    def __init__(self, *, names: Iterable[str], known: Collection[str]) -> None:
        names = sorted(names)
        words = "; ".join(f"'{name}'{nearest(name, known)}" for name in names)
        super().__init__(f"the program does not use these inputs: {words}")
        self.names = tuple(names)


class NothingToRun(RequestError):
    """The program only defines templates and functions, so there is nothing to run."""

    code = "nothing-to-run"

    def __init__(self, name: str, templates: Iterable[str]) -> None:
        named = ", ".join(f"'{one}'" for one in templates)
        hint = "add a call, or register it with `weft library add` and run it by its name"
        super().__init__(f"{name} only defines {named}; {hint}")


def reject_unused_inputs(program: LoadedProgram, inputs: Collection[str]) -> None:
    """Raise NothingToRun for a program of definitions only, or UnusedInputs for inputs that it never uses."""
    forms = program.main.forms
    if program.stored.entry is None and forms and all(isinstance(form, Template | Define) for form in forms):
        names = [form.name for form in forms if isinstance(form, Template | Define)]
        raise NothingToRun(program.stored.main.name, names)
    # Every name that the forms use counts, even if they bind it.
    known = frozenset(name for one in structs_in(program.forms) for name in _names_in(one))
    unused = frozenset(inputs) - known
    if unused:
        raise UnusedInputs(names=unused, known=known - RESERVED_NAMES)


def _names_in(one: Any) -> Iterator[str]:
    match one:
        case Variable(name=name) | Input(name=name) | Assign(name=name) | FunctionCall(func_name=name):
            yield name
        case Condition(text=text):
            yield from _WORD.findall(text)
        case DirectorEvaluatorLoop():
            yield from LOOP_NAMES
        case Script():
            yield "command"
    if isinstance(one, TaskNode) and one.input_source is not None:
        yield one.input_source.partition(".")[0]
