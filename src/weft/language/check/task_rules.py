"""Rules of single tasks that need no scope: fields that must be there, settings that exclude each other."""

import msgspec

from weft.language.check.scopes import Call
from weft.language.check.walk import Walk, check_model, check_tool
from weft.language.context import context_conflict
from weft.language.library import definition_of
from weft.language.output_schemas import BadSchema, is_path, shape_of
from weft.language.request_fields import misplaced, misplaced_fields
from weft.language.spans import Span
from weft.language.template_words import best_evaluator, no_evaluator
from weft.language.tree import (
    Atomic,
    DirectorEvaluatorLoop,
    Reduce,
    Reference,
    Script,
    Sequential,
    TaskNode,
    Template,
)

_OWN = frozenset({"span", "inputs", "output_slot", "input_source", "ref"})
"""Fields that a reference has for itself; the others stand in place of the template's."""


def check_rules(walk: Walk, node: TaskNode) -> None:
    """Note what is wrong with the fields of a task."""
    missing = _missing_field(node)
    if missing is not None:
        walk.findings.note(node.span, "missing-field", missing)
    misfit = misplaced_fields(node)
    if misfit is not None:
        walk.findings.note(node.span, "bad-value", misfit)
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


def _missing_field(node: TaskNode) -> str | None:
    """What a task lacks; None: nothing."""
    if isinstance(node, Atomic) and node.prompt is None:
        return "a task needs instructions or a description: what is asked of the model"
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
                "a placeholder in shell would join a command line; inputs are environment variables: $name"
            )
            walk.findings.note(node.shell.span, "bad-value", message)


def check_shape(walk: Walk, shape: str | None, span: Span) -> None:
    """Note a shape that is no JSON Schema, or a schema file that cannot be used."""
    if shape is None:
        return
    read, name = walk.schemas, span.source.name
    if is_path(shape) and read is None:
        return
    try:
        shape_of(shape, None if read is None else lambda path: read(path, name))
    except BadSchema as error:
        walk.findings.note(span, "bad-value", error.message)


def check_criteria(walk: Walk) -> None:
    """Note criteria that match no evaluator, when all templates are known, and calls of those they match."""
    cells = walk.names.templates.values()
    if not walk.criteria or any(cell.value is None for cell in cells):
        return
    known = [definition_of(cell.value) for cell in cells if isinstance(cell.value, Template)]
    for criteria, names, span, frame in walk.criteria:
        chosen = best_evaluator(known, criteria)
        if chosen is None:
            walk.findings.note(span, "unknown-task", no_evaluator(criteria))
            continue
        taken = [one.name for one in chosen.parameters if one.name in names]
        call = Call(span, (), tuple((name, None) for name in taken))
        walk.calls.of_template(chosen.template, call, frame)


def check_replaced(walk: Walk, node: Reference, template: Template) -> None:
    """Note settings of a reference that do not go with the template it names."""
    changed = _changes(node)
    if changed and not isinstance(template.body, TaskNode):
        message = f"fields on a reference are for single tasks, and the body of {template.name} is none"
        walk.findings.note(node.span, "bad-value", f"{message}: {', '.join(changed)}")
    misfit = misplaced(template.body, changed)
    if misfit is not None:
        walk.findings.note(node.span, "bad-value", f"{template.name}: {misfit}")


def _changes(node: Reference) -> list[str]:
    plain = Reference(ref=node.ref)
    names = [field.name for field in msgspec.structs.fields(TaskNode) if field.name not in _OWN]
    return [name for name in names if getattr(node, name) != getattr(plain, name)]
