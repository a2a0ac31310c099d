"""Checks of tasks: their fields, the rules between fields, and the scope inside a task."""

from collections.abc import Mapping, Sequence

from weft.language import ast
from weft.language.check.expressions import OUTPUT, check_cases, check_paths
from weft.language.check.inference import check_json
from weft.language.check.outputs import output_shape, result_cell
from weft.language.check.rules import task_problems
from weft.language.check.scopes import Call, Frame, Need
from weft.language.check.walker import Visitor, Walk, check_model, check_tool
from weft.language.fields import TASK_KINDS, merge_context, misplaced, replaced_fields, texts_of
from weft.language.library import best_evaluator, definition_of, no_evaluator
from weft.language.schemas import BadSchema, is_path, parse_shape
from weft.language.source import Span
from weft.language.task_fields import IMPLICIT_INPUT


def check_rules(walk: Walk, node: ast.TaskNode) -> None:
    """Note the problems of a task's fields, and unknown shapes, tools and models."""
    walk.findings.add(task_problems(node))
    if node.output_format is not None:
        check_shape(walk, node.output_format.schema, node.span)
    for tool in node.tools:
        check_tool(walk, tool, node.span)
    if node.model is not None:
        name = node.model.partition(":")[2] or node.model
        check_model(walk, f"{node.provider}:{name}" if node.provider else node.model, node.span)


def check_shape(walk: Walk, shape: str | None, span: Span) -> None:
    """Note an invalid shape, or a schema file that cannot be used."""
    if shape is None:
        return
    read, name = walk.schemas, span.source.name
    if is_path(shape) and read is None:
        return
    try:
        parse_shape(shape, None if read is None else lambda path: read(path, name))
    except BadSchema as error:
        walk.findings.note(span, "bad-value", error.message)


def check_criteria(walk: Walk) -> None:
    """Note criteria that match no evaluator, and check the calls of the evaluators that match.

    Check nothing if some form could not be parsed: it may define the evaluator.
    """
    cells = walk.names.templates.values()
    if not walk.criteria or any(cell.value is None for cell in cells):
        return
    known = [definition_of(cell.value) for cell in cells if isinstance(cell.value, ast.Template)]
    for criteria, names, span, frame in walk.criteria:
        chosen = best_evaluator(known, criteria)
        if chosen is None:
            walk.findings.note(span, "unknown-task", no_evaluator(criteria))
            continue
        passed = [one.name for one in chosen.parameters if one.name in names]
        call = Call(span, (), tuple((name, None) for name in passed))
        walk.calls.defer_template_call(chosen.template, call, frame)


def check_overrides(walk: Walk, node: ast.Reference, template: ast.Template) -> None:
    """Note fields of a reference that cannot override fields of its template."""
    changed = list(replaced_fields(node))
    if changed and not isinstance(template.body, ast.TaskNode):
        message = f"fields on a reference are for single tasks, and the body of {template.name} is not a task"
        walk.findings.note(node.span, "bad-value", f"{message}: {', '.join(changed)}")
    misplacement = misplaced(template.body, changed)
    if misplacement is not None:
        walk.findings.note(node.span, "bad-value", f"{template.name}: {misplacement}")


def enter(walk: Walk, node: ast.TaskNode, frame: Frame) -> Frame:
    """Visit the fields that all kinds of task have, and return the frame inside the task."""
    check_rules(walk, node)
    _check_relevance(walk, node, frame)
    _visit_inputs(walk, node, frame)
    for one in node.inputs:
        check_json(one.value, f"the input '{one.name}'", frame, walk.findings)
    inner = _inner_frame(walk, node, frame)
    for one in node.inputs:
        is_task = isinstance(one.value, ast.TaskNode)
        walk.names.bind(inner, one.name, result_cell(one.value, frame) if is_task else None)
    if node.input_source is not None and IMPLICIT_INPUT not in inner:
        walk.names.bind(inner, IMPLICIT_INPUT)
    for text in texts_of(node):
        walk.visit_text(text, inner)
    return inner


def leave(walk: Walk, node: ast.TaskNode, frame: Frame) -> None:
    """Bind the output slot of a task in the frame around it."""
    if node.output_slot is not None:
        walk.names.bind(frame, node.output_slot, result_cell(node, frame))


def _visit_inputs(walk: Walk, node: ast.TaskNode, frame: Frame) -> None:
    walk.check_distinct([one.name for one in node.inputs], node.span, "the input")
    for one in node.inputs:
        if one.value is None:
            walk.use(one.name, one.span, frame)
        elif one.is_open and one.name in frame:  # the parameter replaces a default
            frame[one.name].is_used = True
    walk.visit_unordered([one.value for one in node.inputs], frame)
    if node.input_source is not None:
        walk.use(node.input_source, node.span, frame)


def _check_relevance(walk: Walk, node: ast.TaskNode, frame: Frame) -> None:
    """Note names in `context_relevance` that are not inputs; in a template, parameters count as inputs."""
    known = [one.name for one in node.inputs]
    if node.input_source is not None:
        known.append(IMPLICIT_INPUT)
    if frame.is_arguments:
        known += frame
    for name, _ in node.context_relevance:
        if name not in known:
            hint = walk.findings.nearest(name, known)
            message = f"context_relevance names '{name}', which is not an input of the task{hint}"
            walk.findings.note(node.span, "unbound-name", message)


def _inner_frame(walk: Walk, node: ast.TaskNode, frame: Frame) -> Frame:
    """Return the frame inside a task.

    The task sees `frame` if it inherits all names or is the body of a template; else only global names.
    """
    if (
        frame.is_arguments
        or merge_context(TASK_KINDS[type(node)].name, node.context).inherit_context == "full"
    ):
        return Frame(frame, frame.routine)
    inner = Frame(walk.names.globals, frame.routine)
    inner.isolated_from = frame
    return inner


# Kinds of task


def _visit_single(walk: Walk, node: ast.Atomic | ast.Script, frame: Frame) -> None:
    enter(walk, node, frame)
    leave(walk, node, frame)


def _visit_sequential(walk: Walk, node: ast.Sequential, frame: Frame) -> None:
    inner = enter(walk, node, frame)
    slots = [step.output_slot for step in node.steps if isinstance(step, ast.TaskNode) and step.output_slot]
    walk.check_distinct(slots, node.span, "the output_slot")
    if node.is_parallel:
        _visit_parallel_steps(walk, node, slots, inner)
    else:
        _visit_steps(walk, node, inner)
    leave(walk, node, frame)


def _visit_steps(walk: Walk, node: ast.Sequential, inner: Frame) -> None:
    walk.names.bind(inner, "steps")
    before: ast.Node | None = None
    for step in node.steps:
        check_json(step, "the output of a step", inner, walk.findings)
        if isinstance(step, ast.TaskCond) and before is not None:
            _visit_cond(walk, step, inner, output_shape(before, inner))
        else:
            walk.visit(step, inner)
        if before is None:
            walk.names.bind(inner, "last_output")
        before = step


def _visit_parallel_steps(walk: Walk, node: ast.Sequential, slots: Sequence[str], inner: Frame) -> None:
    reason = "the steps of a parallel task do not see each other's outputs"
    for step in node.steps:
        alone = Frame(inner, inner.routine)
        check_json(step, "the output of a step", inner, walk.findings)
        alone.hidden = dict.fromkeys([*slots, "steps", "last_output"], reason)
        walk.visit(step, alone)


def _visit_reduce(walk: Walk, node: ast.Reduce, frame: Frame) -> None:
    if node.initial_value is not None:
        walk.visit(node.initial_value, frame)
    inner = enter(walk, node, frame)
    if node.inner_task is not None:
        walk.visit(node.inner_task, Frame(inner, inner.routine, [IMPLICIT_INPUT]))
    if node.reduction_task is not None:
        names = ["current_result", "accumulator", "original_input"]
        if node.inputs:
            check_json(node.reduction_task, "the result of a reduction", inner, walk.findings)
        walk.visit(node.reduction_task, Frame(inner, inner.routine, names))
    leave(walk, node, frame)


def _visit_director_loop(walk: Walk, node: ast.DirectorEvaluatorLoop, frame: Frame) -> None:
    inner = enter(walk, node, frame)
    for name in ast.LOOP_NAMES:
        walk.names.bind(inner, name)
    if node.script is not None and node.script.output_slot is not None:
        walk.names.bind(inner, node.script.output_slot)  # bound from the start, as LOOP_NAMES are
    walk.visit_all([node.director], inner)
    if node.script is not None:
        enter(walk, node.script, inner)
    walk.visit_all([node.evaluator, node.termination_condition], inner)
    if node.evaluator is None and node.criteria is not None:
        walk.criteria.append((node.criteria, ast.LOOP_NAMES, node.span, inner))
    leave(walk, node, frame)


# Cases


def _visit_cond(walk: Walk, node: ast.TaskCond, frame: Frame, shape: str | None = None) -> None:
    """Visit a cond; `shape` is the shape of the output of the previous step. None: unknown."""
    if not node.cases:
        walk.findings.note(node.span, "missing-field", "a cond of tasks needs at least one case")
    if node.criteria is not None:
        walk.criteria.append((node.criteria, ast.JUDGED_NAMES, node.span, frame))
        walk.names.bind(frame, ast.EVALUATION)
    scope = Frame(frame, frame.routine, [OUTPUT])
    read = [(case.span, walk.visit_condition(case.test, scope)) for case in node.cases]
    conditions = [(span, condition) for span, condition in read if condition is not None]
    check_cases(conditions, walk.findings)
    for case, (_, condition) in zip(node.cases, read, strict=True):
        if condition is not None:
            check_paths(condition, case.test.span, shape, walk.findings)
    walk.visit_alternatives([*([case.body] for case in node.cases), []], frame)


# References


def _visit_reference(walk: Walk, node: ast.Reference, frame: Frame) -> None:
    check_rules(walk, node)
    _visit_inputs(walk, node, frame)
    cell = walk.names.templates.get(node.ref)
    template = cell.value if cell is not None else None
    if cell is not None and template is None:  # may be a template that could not be read
        pass
    elif not isinstance(template, ast.Template):
        hint = walk.findings.nearest(node.ref, walk.names.templates)
        walk.findings.note(node.span, "unknown-task", f"task '{node.ref}' is not in the library{hint}")
    else:
        _check_reference(walk, node, template, frame)
    leave(walk, node, frame)


def _check_reference(walk: Walk, node: ast.Reference, template: ast.Template, frame: Frame) -> None:
    """Check the arguments of a reference, and the fields that override those of the template."""
    keywords: list[tuple[str, ast.Node | None]] = [(one.name, one.value) for one in node.inputs]
    parameters = [parameter.name for parameter in template.parameters]
    given = [name for name, _ in keywords]
    if node.input_source is not None and IMPLICIT_INPUT in parameters and IMPLICIT_INPUT not in given:
        keywords.append((IMPLICIT_INPUT, None))
    walk.calls.defer_template_call(template, Call(node.span, (), tuple(keywords), frame), frame)
    templates = walk.names.templates
    walk.names.use_binding(Need(templates, templates, node.ref, node.span), frame.routine)
    body = template.body
    inputs = [one.name for one in body.inputs] if isinstance(body, ast.TaskNode) else []
    inner = Frame(walk.names.globals, frame.routine, [*parameters, *inputs])
    for text in texts_of(node):  # evaluated inside the template
        walk.visit_text(text, inner)
    check_overrides(walk, node, template)


TASKS: Mapping[type[ast.Node], Visitor] = {
    ast.Atomic: _visit_single,
    ast.Script: _visit_single,
    ast.Sequential: _visit_sequential,
    ast.Reduce: _visit_reduce,
    ast.DirectorEvaluatorLoop: _visit_director_loop,
    ast.TaskCond: _visit_cond,
    ast.Reference: _visit_reference,
}
