"""Checks of templates: parameters, bodies, return types, endless recursion."""

from collections.abc import Container, Iterator, Mapping

from weft.language.ast import Begin, Define, FunctionCall, Node, Reference, Sequential, Template
from weft.language.check.calls import default_problem, find_mismatch
from weft.language.check.inference import types_of
from weft.language.check.outputs import json_shape
from weft.language.check.scopes import Cell, Frame, Routine
from weft.language.check.tasks import check_shape
from weft.language.check.walker import Walk
from weft.language.diagnostics import Findings
from weft.language.library import open_inputs


def visit_template(walk: Walk, node: Template, frame: Frame) -> None:
    """Visit a template that is nested in another form; forms after it can call it."""
    cell = walk.names.templates.setdefault(node.name, Cell(node))
    if cell.value is not node:
        walk.findings.note(node.span, "duplicate-name", f"the template '{node.name}' is already defined")
    define_template(walk, node, cell)


def define_template(walk: Walk, node: Template, cell: Cell) -> Frame:
    """Visit a template and return the frame of its parameters.

    `cell` is the binding of its name; it gets the needs of the body unless it holds another template.
    """
    walk.names.note_reserved(node.name, node.span)
    arguments = _bind_parameters(walk, node)
    boundary, walk.boundary = walk.boundary, None
    walk.visit(node.body, arguments)
    walk.boundary = boundary
    walk.names.close(arguments.routine)
    if cell.value is node:
        cell.needs = arguments.routine.needs
        walk.names.program.functions.append(cell)
    _check_returns(walk, node, arguments)
    return arguments


def _bind_parameters(walk: Walk, node: Template) -> Frame:
    """Return a new frame that binds the parameters and the required inputs of the body."""
    walk.check_distinct([one.name for one in node.parameters], node.span, "the parameter")
    arguments = Frame(walk.names.globals, Routine())
    arguments.is_arguments = True
    for parameter in node.parameters:
        check_shape(walk, parameter.type, node.span)
        problem = default_problem(parameter, node)
        if problem is not None:
            walk.findings.add([problem])
        walk.names.bind(arguments, parameter.name)
    for name, is_needed in open_inputs(node).items():
        if is_needed and name not in arguments:
            walk.names.bind(arguments, name)
    return arguments


def _check_returns(walk: Walk, node: Template, arguments: Frame) -> None:
    check_shape(walk, node.returns, node.span)
    allowed, declared = types_of(node.returns), types_of(json_shape(node.body))
    reason = find_mismatch(node.body, node.returns, arguments, is_read=True)
    if allowed is not None and declared is not None and not allowed & declared:
        reason = f"its output format says {json_shape(node.body)}"
    if reason is not None:
        message = f"the template '{node.name}' returns {node.returns}, and its body does not: {reason}"
        walk.findings.note(node.span, "wrong-type", message)


def check_unused(walk: Walk, node: Template, arguments: Frame) -> None:
    """Note parameters that the body does not use."""
    for parameter in node.parameters:
        cell = arguments.get(parameter.name)
        if cell is not None and not cell.is_used:
            message = f"the parameter '{parameter.name}' of '{node.name}' is not used"
            walk.findings.note(node.span, "unused-parameter", message)


MAX_SHOWN = 6
"""How many templates of a cycle a message names."""

MAX_CYCLES = 100
"""How many cycles are reported at most."""


def check_cycles(
    own: Mapping[str, Template], known: Mapping[str, Template], shadowed: Container[str], findings: Findings
) -> None:
    """Note cycles in which each template of the program always calls the next.

    `own` are the templates of the program, `known` also those of libraries. `shadowed` are global names that
    hide templates from calls by name.
    """
    done: set[str] = set()
    reported: set[str] = set()
    for first in own:
        path: dict[str, Iterator[str]] = {}
        name: str | None = first
        while name is not None or path:
            if name is not None and name not in done and name not in path:
                path[name] = _always_called(known[name], known, shadowed)
            elif name in path and name not in reported and len(reported) < MAX_CYCLES:
                reported.add(name)
                _note_cycle(name, list(path), known, findings)
            current = next(reversed(path), None)
            if current is None:
                break
            name = next(path[current], None)
            if name is None:
                done.add(current)
                del path[current]


def _note_cycle(name: str, path: list[str], known: Mapping[str, Template], findings: Findings) -> None:
    cycle = path[path.index(name) :]
    shown = [*cycle[:MAX_SHOWN], *(["..."] if len(cycle) > MAX_SHOWN else []), name]
    message = f"these templates can never end: {' -> '.join(shown)}; each always runs the next"
    findings.note(known[name].span, "template-cycle", message)


def _always_called(
    template: Template, known: Mapping[str, Template], shadowed: Container[str]
) -> Iterator[str]:
    """Yield the names of templates that are called whenever `template` is."""
    local = {parameter.name for parameter in template.parameters}
    pending: list[Node] = [template.body]
    while pending:
        node = pending.pop()
        if isinstance(node, Reference):
            if node.ref in known:
                yield node.ref
        elif isinstance(node, FunctionCall):
            name = node.func_name
            if name in known and name not in local and name not in shadowed:
                yield name
        elif isinstance(node, Sequential):
            pending.extend(reversed(node.steps))
        elif isinstance(node, Begin):
            local.update(item.name for item in node.items if isinstance(item, Define))
            pending.extend(reversed(node.items))
