"""Checks of tasks: their fields, the rules between fields, and the scope inside a task."""

from collections.abc import Mapping, Sequence

import msgspec

from weft.language.ast import (
    EVALUATION,
    JUDGED_NAMES,
    LOOP_NAMES,
    Atomic,
    DirectorEvaluatorLoop,
    Input,
    Node,
    Reduce,
    Reference,
    Script,
    Sequential,
    TaskCond,
    TaskNode,
    Template,
)
from weft.language.check.calls import open_inputs
from weft.language.check.expressions import OUTPUT, check_cases, check_paths
from weft.language.check.inference import check_json, texts_of
from weft.language.check.outputs import output_shape, result_cell
from weft.language.check.scopes import Call, Frame
from weft.language.check.walker import Visitor, Walk, check_model, check_tool
from weft.language.fields import ContextKind, context_conflict, merge_context, misplaced, misplaced_fields
from weft.language.library import best_evaluator, definition_of, no_evaluator
from weft.language.schemas import BadSchema, is_path, parse_shape
from weft.language.source import Span
from weft.language.task_fields import IMPLICIT_INPUT, ContextOverrides

_REFERENCE_FIELDS = frozenset({"span", "inputs", "output_slot", "input_source", "ref"})
"""Fields of the reference itself; all other fields override fields of the template."""


def check_rules(walk: Walk, node: TaskNode) -> None:
    """Note missing, misplaced and conflicting fields, and unknown shapes, tools and models."""
    missing = _explain_missing_field(node)
    if missing is not None:
        walk.findings.note(node.span, "missing-field", missing)
    misplacement = misplaced_fields(node)
    if misplacement is not None:
        walk.findings.note(node.span, "bad-value", misplacement)
    conflict = context_conflict(node.context, node.span)
    if conflict is not None:
        walk.findings.add([conflict])
    if node.output_format is not None:
        check_shape(walk, node.output_format.schema, node.span)
    for tool in node.tools:
        check_tool(walk, tool, node.span)
    if node.model is not None:
        name = node.model.partition(":")[2] or node.model
        check_model(walk, f"{node.provider}:{name}" if node.provider else node.model, node.span)
    _check_values(walk, node)


def _explain_missing_field(node: TaskNode) -> str | None:
    if isinstance(node, Atomic) and node.prompt is None:
        return "a task needs instructions or a description: the prompt for the model"
    if isinstance(node, Sequential) and not node.steps:
        return "a sequential task needs at least one step"
    if isinstance(node, Reduce) and (node.inner_task is None or node.reduction_task is None):
        return "a reduce task needs an inner_task and a reduction_task"
    if isinstance(node, DirectorEvaluatorLoop):
        if node.director is None:
            return "a director_evaluator_loop needs a director"
        if node.evaluator is None and node.criteria is None:
            return "a director_evaluator_loop needs an evaluator, or criteria to find one by"
    is_command = isinstance(node, Script) and (node.argv or node.shell is not None)
    if isinstance(node, Script) and not is_command and "command" not in {one.name for one in node.inputs}:
        return "a script needs a command: argv, shell, or an input named 'command'"
    return None


def _check_values(walk: Walk, node: TaskNode) -> None:
    if (
        isinstance(node, DirectorEvaluatorLoop)
        and node.max_iterations is not None
        and node.max_iterations < 1
    ):
        walk.findings.note(node.span, "bad-value", "max_iterations is at least 1")
    if isinstance(node, Script) and node.shell is not None:
        if node.argv:
            walk.findings.note(node.span, "bad-value", "a script has argv or shell, not both")
        if not all(isinstance(part, str) for part in node.shell.parts):
            message = (
                "a placeholder in shell would be part of a command line; "
                "use the environment variable of the input: $name"
            )
            walk.findings.note(node.shell.span, "bad-value", message)


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
    known = [definition_of(cell.value) for cell in cells if isinstance(cell.value, Template)]
    for criteria, names, span, frame in walk.criteria:
        chosen = best_evaluator(known, criteria)
        if chosen is None:
            walk.findings.note(span, "unknown-task", no_evaluator(criteria))
            continue
        passed = [one.name for one in chosen.parameters if one.name in names]
        call = Call(span, (), tuple((name, None) for name in passed))
        walk.calls.defer_template_call(chosen.template, call, frame)


def check_overrides(walk: Walk, node: Reference, template: Template) -> None:
    """Note fields of a reference that cannot override fields of its template."""
    changed = _overridden_fields(node)
    if changed and not isinstance(template.body, TaskNode):
        message = f"fields on a reference are for single tasks, and the body of {template.name} is not a task"
        walk.findings.note(node.span, "bad-value", f"{message}: {', '.join(changed)}")
    misplacement = misplaced(template.body, changed)
    if misplacement is not None:
        walk.findings.note(node.span, "bad-value", f"{template.name}: {misplacement}")


def _overridden_fields(node: Reference) -> list[str]:
    plain = Reference(ref=node.ref)
    names = [field.name for field in msgspec.structs.fields(TaskNode) if field.name not in _REFERENCE_FIELDS]
    return [name for name in names if getattr(node, name) != getattr(plain, name)]


_CONTEXT_KINDS: Mapping[type[Node], ContextKind] = {
    Atomic: "atomic",
    Script: "script",
    Sequential: "sequential",
    Reduce: "reduce",
    DirectorEvaluatorLoop: "director_evaluator_loop",
}


def enter(walk: Walk, node: TaskNode, frame: Frame) -> Frame:
    """Visit the fields that all kinds of task have, and return the frame inside the task."""
    check_rules(walk, node)
    _check_relevance(walk, node, frame)
    _visit_inputs(walk, node, frame)
    for one in node.inputs:
        check_json(one.value, f"the input '{one.name}'", frame, walk.findings)
    inner = _inner_frame(walk, node, frame)
    for one in node.inputs:
        is_task = isinstance(one.value, TaskNode)
        walk.bind(one.name, one.span, inner, result_cell(one.value, frame) if is_task else None)
    if node.input_source is not None and IMPLICIT_INPUT not in inner:
        walk.bind(IMPLICIT_INPUT, node.span, inner)
    for text in texts_of(node):
        walk.visit_text(text, inner)
    return inner


def leave(walk: Walk, node: TaskNode, frame: Frame) -> None:
    """Bind the output slot of a task in the frame around it."""
    if node.output_slot is not None:
        walk.bind(node.output_slot, node.span, frame, result_cell(node, frame))


def _visit_inputs(walk: Walk, node: TaskNode, frame: Frame) -> None:
    walk.check_distinct([one.name for one in node.inputs], node.span, "the input")
    for one in node.inputs:
        _use_input(walk, one, frame)
    walk.visit_unordered([one.value for one in node.inputs], frame)
    if node.input_source is not None:
        walk.use(node.input_source, node.span, frame)


def _check_relevance(walk: Walk, node: TaskNode, frame: Frame) -> None:
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


def _use_input(walk: Walk, one: Input, frame: Frame) -> None:
    """Mark as used the name that an input without a value reads, or the parameter that replaces a default."""
    if one.value is None:
        walk.use(one.name, one.span, frame)
    elif one.is_open and one.name in frame:
        frame[one.name].is_used = True


def _inner_frame(walk: Walk, node: TaskNode, frame: Frame) -> Frame:
    """Return the frame inside a task.

    The task sees `frame` if it inherits all names or is the body of a template; else only global names.
    """
    overrides = node.context
    if context_conflict(overrides, node.span) is not None:
        overrides = ContextOverrides(inherit_context=overrides.inherit_context)
    kind = _CONTEXT_KINDS.get(type(node), "atomic")
    if frame.is_arguments or merge_context(kind, overrides, node.span).inherit_context == "full":
        return Frame(frame, frame.routine)
    inner = Frame(walk.names.globals, frame.routine)
    inner.isolated_from = frame
    return inner


# Kinds of task


def _visit_single(walk: Walk, node: Atomic | Script, frame: Frame) -> None:
    enter(walk, node, frame)
    leave(walk, node, frame)


def _visit_sequential(walk: Walk, node: Sequential, frame: Frame) -> None:
    inner = enter(walk, node, frame)
    slots = [step.output_slot for step in node.steps if isinstance(step, TaskNode) and step.output_slot]
    walk.check_distinct(slots, node.span, "the output_slot")
    if node.is_parallel:
        _visit_parallel_steps(walk, node, slots, inner)
    else:
        _visit_steps(walk, node, inner)
    leave(walk, node, frame)


def _visit_steps(walk: Walk, node: Sequential, inner: Frame) -> None:
    walk.bind("steps", node.span, inner)
    before: Node | None = None
    for step in node.steps:
        check_json(step, "the output of a step", inner, walk.findings)
        if isinstance(step, TaskCond) and before is not None:
            _visit_cond_after(walk, step, inner, output_shape(before, inner))
        else:
            walk.visit(step, inner)
        if before is None:
            walk.bind("last_output", node.span, inner)
        before = step


def _visit_parallel_steps(walk: Walk, node: Sequential, slots: Sequence[str], inner: Frame) -> None:
    reason = "the steps of a parallel task do not see each other's outputs"
    for step in node.steps:
        alone = Frame(inner, inner.routine)
        check_json(step, "the output of a step", inner, walk.findings)
        alone.hidden = dict.fromkeys([*slots, "steps", "last_output"], reason)
        walk.visit(step, alone)


def _visit_reduce(walk: Walk, node: Reduce, frame: Frame) -> None:
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


def _visit_director_loop(walk: Walk, node: DirectorEvaluatorLoop, frame: Frame) -> None:
    inner = enter(walk, node, frame)
    for name in LOOP_NAMES:
        walk.bind(name, node.span, inner)
    if node.script is not None and node.script.output_slot is not None:
        walk.bind(node.script.output_slot, node.span, inner)  # bound from the start, as LOOP_NAMES are
    walk.visit_all([node.director], inner)
    if node.script is not None:
        enter(walk, node.script, inner)
    walk.visit_all([node.evaluator, node.termination_condition], inner)
    if node.evaluator is None and node.criteria is not None:
        walk.criteria.append((node.criteria, LOOP_NAMES, node.span, inner))
    leave(walk, node, frame)


# Cases


def _visit_cond(walk: Walk, node: TaskCond, frame: Frame) -> None:
    _visit_cond_after(walk, node, frame, None)


def _visit_cond_after(walk: Walk, node: TaskCond, frame: Frame, shape: str | None) -> None:
    """Visit a cond; `shape` is the shape of the output of the previous step. None: unknown."""
    if node.criteria is not None:
        walk.criteria.append((node.criteria, JUDGED_NAMES, node.span, frame))
        walk.bind(EVALUATION, node.span, frame)
    scope = Frame(frame, frame.routine, [OUTPUT])
    read = [(case.span, walk.visit_condition(case.test, scope)) for case in node.cases]
    conditions = [(span, condition) for span, condition in read if condition is not None]
    check_cases(conditions, walk.findings)
    for case, (_, condition) in zip(node.cases, read, strict=True):
        if condition is not None:
            check_paths(condition, case.test.span, shape, walk.findings)
    walk.visit_alternatives([*([case.body] for case in node.cases), []], frame)


# References


def _visit_reference(walk: Walk, node: Reference, frame: Frame) -> None:
    check_rules(walk, node)
    _visit_inputs(walk, node, frame)
    cell = walk.names.templates.get(node.ref)
    template = cell.value if cell is not None else None
    if cell is not None and template is None:  # may be a template that could not be read
        pass
    elif not isinstance(template, Template):
        hint = walk.findings.nearest(node.ref, walk.names.templates)
        walk.findings.note(node.span, "unknown-task", f"task '{node.ref}' is not in the library{hint}")
    else:
        _check_reference(walk, node, template, frame)
    leave(walk, node, frame)


def _check_reference(walk: Walk, node: Reference, template: Template, frame: Frame) -> None:
    """Check the arguments of a reference, and the fields that override those of the template."""
    keywords: list[tuple[str, Node | None]] = [(one.name, one.value) for one in node.inputs]
    parameters = [parameter.name for parameter in template.parameters]
    given = [name for name, _ in keywords]
    if node.input_source is not None and IMPLICIT_INPUT in parameters and IMPLICIT_INPUT not in given:
        keywords.append((IMPLICIT_INPUT, None))
    walk.calls.defer_template_call(template, Call(node.span, (), tuple(keywords), frame), frame)
    walk.names.use_template(node.ref, node.span, frame)
    for text in texts_of(node):
        walk.visit_text(text, _reference_frame(walk, template, frame))
    check_overrides(walk, node, template)


def _reference_frame(walk: Walk, template: Template, frame: Frame) -> Frame:
    """Return the frame for texts of a reference, which are evaluated inside the template."""
    body = template.body
    inputs = [one.name for one in body.inputs] if isinstance(body, TaskNode) else []
    names = [*(parameter.name for parameter in template.parameters), *inputs, *open_inputs(template)]
    return Frame(walk.names.globals, frame.routine, names)


TASKS: Mapping[type[Node], Visitor] = {
    Atomic: _visit_single,
    Script: _visit_single,
    Sequential: _visit_sequential,
    Reduce: _visit_reduce,
    DirectorEvaluatorLoop: _visit_director_loop,
    TaskCond: _visit_cond,
    Reference: _visit_reference,
}
