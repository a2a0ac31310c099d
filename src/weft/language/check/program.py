"""The checks of a whole program."""

from collections.abc import Callable, Collection, Mapping
from typing import TypeGuard

from msgspec import Struct

from weft.gc_tuning import paused_collector
from weft.language.ast import FunctionCall, Node, Program, TaskCond, TaskNode, Template
from weft.language.builtins import RESERVED_NAMES
from weft.language.check.expressions import FORMS
from weft.language.check.scopes import Cell, Frame, TooIntricate
from weft.language.check.tasks import TASKS, check_criteria
from weft.language.check.templates import check_cycles, check_unused, define_template, visit_template
from weft.language.check.walker import Visitor, Walk
from weft.language.diagnostics import LanguageProblem
from weft.language.library import TaskLibrary
from weft.language.schemas import ReadSchema
from weft.language.source import Span
from weft.language.traversal import deep_stack
from weft.limits import MAX_PROGRAM_DEPTH

_VISITORS: Mapping[type[Node], Visitor] = {**FORMS, **TASKS, Template: visit_template}


class Verdict(Struct, frozen=True):
    """What the checks say of a program."""

    problems: list[LanguageProblem]
    inputs: dict[str, Span]
    """The free names of its bare tasks and calls, which whoever runs it must pass, and where each is first
    used."""
    misspelt: dict[str, Span]
    """Free names of bare tasks and calls that are problems: they are nearly names that are bound there."""


def check_program(
    program: Program,
    library: TaskLibrary | None = None,
    *,
    tools: Collection[str] | None = None,
    models: Callable[[str], str | None] | None = None,
) -> list[LanguageProblem]:
    """Everything that is wrong with a program as far as it can be told without running it, in order.

    `tools` are the names of all tools, `models` says what is wrong with the name of a model (None: nothing);
    without them tools and models are not looked at.
    """
    return verdict_on(program, library, tools=tools, models=models).problems


def required_inputs(program: Program, library: TaskLibrary | None = None) -> tuple[str, ...]:
    """The names that whoever runs the program must pass, in order: free ones of its bare tasks and calls."""
    return tuple(verdict_on(program, library).inputs)


def verdict_on(
    program: Program,
    library: TaskLibrary | None = None,
    *,
    tools: Collection[str] | None = None,
    models: Callable[[str], str | None] | None = None,
    schemas: ReadSchema | None = None,
    mentioned: frozenset[str] = frozenset(),
) -> Verdict:
    """What the checks say of a program; as for `check_program`.

    `schemas` reads the schema files that it names; without it they are not looked at. `mentioned` are names
    that forms which could not be read perhaps bind.
    """
    with paused_collector(), deep_stack():
        walk = _checked(program, library, tools, models, schemas, mentioned)
        return Verdict(walk.findings.in_order(), walk.names.inputs, walk.names.misspelt)


def _checked(
    program: Program,
    library: TaskLibrary | None,
    tools: Collection[str] | None,
    models: Callable[[str], str | None] | None,
    schemas: ReadSchema | None,
    mentioned: frozenset[str],
) -> Walk:
    """The walk over a program, done."""
    known = {one.name: one.template for one in library} if library is not None else {}
    own: dict[str, Template] = {}
    for form in program.forms:
        if isinstance(form, Template) and form.name not in known:
            own.setdefault(form.name, form)
    walk = Walk(_VISITORS, {**known, **own}, tools=tools, models=models, schemas=schemas)
    for name in mentioned - walk.names.templates.keys() - RESERVED_NAMES:
        walk.names.templates[name] = Cell()
    try:
        _walk(walk, program)
    except TooIntricate:
        message = "functions need too much of each other to be followed; define fewer inside each other"
        walk.findings.note(program.forms[0].span, "program-too-deep", message)
    check_criteria(walk)
    walk.calls.report(walk.names.globals)
    check_cycles(own, {**known, **own}, walk.names.globals, walk.findings)
    walk.names.report()
    return walk


def _walk(walk: Walk, program: Program) -> None:
    """Look at templates first, which the evaluator registers before it runs anything, then at the rest."""
    defined = [_define(walk, form) for form in program.forms if isinstance(form, Template)]
    for form in program.forms:
        if not isinstance(form, Template):
            _visit(walk, form)
    walk.names.close(walk.names.program)
    for template, arguments in defined:
        check_unused(walk, template, arguments)


def _define(walk: Walk, template: Template) -> tuple[Template, Frame]:
    """Look at a template of the program and give the frame of its parameters."""
    cell = walk.names.templates[template.name]
    if cell.value is not template:
        first = cell.value.span if cell.value is not None else template.span
        message = f"the template '{template.name}' is defined twice (first at {first})"
        walk.findings.note(template.span, "duplicate-name", message)
        cell = Cell()
    try:
        return template, define_template(walk, template, cell)
    except RecursionError:
        _too_deep(walk, template)
        return template, Frame(None, walk.names.program)


def _visit(walk: Walk, form: Node) -> None:
    """Look at a form; a task or call that is one by itself may name what is passed to it."""
    if isinstance(form, TaskNode | TaskCond):
        walk.outside = walk.names.globals
    elif is_bare_call(form) and _is_there(walk, form.func_name):
        walk.outside = walk.names.templates  # nearly a name of the program is a slip, too
    try:
        walk.visit(form, walk.names.globals)
    except RecursionError:
        _too_deep(walk, form)
    walk.outside = None


def is_bare_call(form: Node) -> TypeGuard[FunctionCall]:
    """Whether a form of a program calls a template, a tool or a function of the program: no built-in."""
    return isinstance(form, FunctionCall) and form.func_name not in RESERVED_NAMES


def _is_there(walk: Walk, name: str) -> bool:
    """Whether what a form calls is a tool, or bound by now: nothing can be passed to what is not there."""
    return ":" in name or walk.names.globals.find(name) is not None


def _too_deep(walk: Walk, form: Node) -> None:
    message = f"the program nests too deeply; {MAX_PROGRAM_DEPTH:,} levels are allowed"
    walk.findings.note(form.span, "program-too-deep", message)
