"""Static checks of a whole program."""

from collections.abc import Callable, Collection, Mapping
from typing import TypeGuard

from msgspec import Struct

from weft.gc_tuning import pause_collector
from weft.language.ast import Define, FunctionCall, Node, Program, TaskCond, TaskNode, Template
from weft.language.builtins import RESERVED_NAMES
from weft.language.check.expressions import FORMS
from weft.language.check.scopes import Cell, Frame, TooComplex
from weft.language.check.tasks import TASKS, check_criteria
from weft.language.check.templates import check_cycles, check_unused, define_template, visit_template
from weft.language.check.walker import Visitor, Walk
from weft.language.diagnostics import LanguageProblem
from weft.language.library import TaskLibrary
from weft.language.schemas import ReadSchema
from weft.language.source import Span
from weft.language.traversal import raise_recursion_limit
from weft.limits import MAX_PROGRAM_DEPTH

_VISITORS: Mapping[type[Node], Visitor] = {**FORMS, **TASKS, Template: visit_template}


class CheckResult(Struct, frozen=True):
    """The result of the static checks of a program."""

    problems: list[LanguageProblem]
    inputs: dict[str, Span]
    """Inputs that the caller must pass, with the location of their first use: the free names of top-level
    tasks and calls."""
    misspelt: dict[str, Span]
    """Free names that look like misspellings of bound names; they are reported as problems, not as inputs."""


def check_program(
    program: Program,
    library: TaskLibrary | None = None,
    *,
    tools: Collection[str] | None = None,
    models: Callable[[str], str | None] | None = None,
) -> list[LanguageProblem]:
    """Return the problems of a program that can be found without running it, sorted by location.

    `tools` are the names of all tools. `models` takes the name of a model and returns an error message, or
    None if the model is known. Tools and models are only checked if these arguments are given.
    """
    return analyze_program(program, library, tools=tools, models=models).problems


def required_inputs(program: Program, library: TaskLibrary | None = None) -> tuple[str, ...]:
    """Return the inputs that a caller must pass: free names of top-level tasks and calls, in order of use."""
    return tuple(analyze_program(program, library).inputs)


def analyze_program(
    program: Program,
    library: TaskLibrary | None = None,
    *,
    tools: Collection[str] | None = None,
    models: Callable[[str], str | None] | None = None,
    schemas: ReadSchema | None = None,
    mentioned: frozenset[str] = frozenset(),
) -> CheckResult:
    """Check a program as `check_program` does, and also return its required inputs.

    `schemas` reads schema files; without it they are not checked. `mentioned` are names that forms
    with syntax errors may bind; they count as bound.
    """
    known = {one.name: one.template for one in library} if library is not None else {}
    own: dict[str, Template] = {}
    for form in program.forms:
        if isinstance(form, Template) and form.name not in known:
            own.setdefault(form.name, form)
    walk = Walk(_VISITORS, {**known, **own}, tools=tools, models=models, schemas=schemas)
    for name in mentioned - walk.names.templates.keys() - RESERVED_NAMES:
        walk.names.templates[name] = Cell()
    with pause_collector(), raise_recursion_limit():
        try:
            _walk(walk, program)
        except TooComplex:
            message = "functions use too many names from enclosing scopes to be checked; nest fewer functions"
            walk.findings.note(program.forms[0].span, "program-too-deep", message)
        check_criteria(walk)
        walk.calls.report(walk.names.globals)
        check_cycles(own, {**known, **own}, walk.names.globals, walk.findings)
        walk.names.report()
    return CheckResult(walk.findings.sorted_problems(), walk.names.inputs, walk.names.misspelt)


def _walk(walk: Walk, program: Program) -> None:
    """Visit templates first, since the evaluator registers them before it runs anything, then other forms."""
    defined = [_define(walk, form) for form in program.forms if isinstance(form, Template)]
    for form in program.forms:
        if not isinstance(form, Template):
            _visit(walk, form)
    walk.names.close(walk.names.program)
    for template, arguments in defined:
        check_unused(walk, template, arguments)


def _define(walk: Walk, template: Template) -> tuple[Template, Frame]:
    """Visit a template of the program and return it with the frame of its parameters."""
    cell = walk.names.templates[template.name]
    if cell.value is not template:
        first = cell.value.span if cell.value is not None else template.span
        message = f"the template '{template.name}' is defined twice (first at {first})"
        walk.findings.note(template.span, "duplicate-name", message)
        cell = Cell()
    try:
        return template, define_template(walk, template, cell)
    except RecursionError:
        _note_too_deep(walk, template)
        return template, Frame(None, walk.names.program)


def _visit(walk: Walk, form: Node) -> None:
    """Visit a top-level form. Free names of a task or call, also in a `define`, are inputs of the program."""
    work = form.value if isinstance(form, Define) else form
    if isinstance(work, TaskNode | TaskCond):
        walk.boundary = walk.names.globals
    elif is_bare_call(work) and (":" in work.func_name or walk.names.globals.find(work.func_name)):
        # A free name that resembles a global name is reported as misspelt instead of becoming an input.
        walk.boundary = walk.names.templates
    try:
        walk.visit(form, walk.names.globals)
    except RecursionError:
        _note_too_deep(walk, form)
    walk.boundary = None


def is_bare_call(form: Node) -> TypeGuard[FunctionCall]:
    """Return whether a top-level form calls a template, a tool or a function, and not a built-in."""
    return isinstance(form, FunctionCall) and form.func_name not in RESERVED_NAMES


def _note_too_deep(walk: Walk, form: Node) -> None:
    message = f"the program nests too deeply; {MAX_PROGRAM_DEPTH:,} levels are allowed"
    walk.findings.note(form.span, "program-too-deep", message)
