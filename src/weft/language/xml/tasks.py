"""Parse tasks of every type."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from weft.language import ast
from weft.language.fields import TASK_KINDS, ContextKind, context_conflict, merge_context
from weft.language.task_fields import ContextOverrides
from weft.language.xml.elements import Element
from weft.language.xml.fields import read_command, read_common_fields, read_inputs, read_value
from weft.language.xml.reader import NODES, Reading
from weft.language.xml.text import CALLED

_KIND_OF_TAG: Final[Mapping[str, ContextKind]] = {
    field.tag: kind.name for kind in TASK_KINDS.values() for field in kind.fields
}
"""Elements and attributes that only one type of task has, with that type."""

STEP_NAMES: Final = frozenset({"steps", "last_output"})
REDUCTION_NAMES: Final = frozenset({"current_result", "accumulator", "original_input"})


def read_task(element: Element, reading: Reading) -> ast.Node:
    """Parse a task, in whatever element: `task`, `director`, `inner_task` ..."""
    if "ref" in element.attributes:
        return _read_reference(element, reading)
    is_loop = element.tag == "director_evaluator_loop"
    kind: Any = element.tag if is_loop else element.attributes.get("type", "atomic")
    _check_fields(element, kind, reading)
    common = read_common_fields(element, reading)
    return _READERS[kind](element, _inside(kind, common, reading), common)


def _read_reference(element: Element, reading: Reading) -> ast.Node:
    _check_fields(element, None, reading)
    name = reading.name(element, element.attributes["ref"], "ref", CALLED)
    return ast.Reference(**read_common_fields(element, reading), ref=name)


def _check_fields(element: Element, kind: ContextKind | None, reading: Reading) -> None:
    """Report fields that belong to other types of task."""
    written = [(child.tag, child.span) for child in element.children]
    written += [(name, element.span) for name in element.attributes if not element.child(name)]
    for name, span in written:
        owner = _KIND_OF_TAG.get(name, kind)
        if owner != kind:
            what = f"is of type {kind}" if kind else "has ref, so the template decides its type"
            message = f'{name} belongs to a task of type {owner}, but this one {what}; write type="{owner}"'
            reading.found.note(span, "bad-value", message)


def _inside(kind: ContextKind, common: Mapping[str, Any], reading: Reading) -> Reading:
    """Return the parser state inside the task: its inputs are in scope, and outer names if inherited."""
    names = [one.name for one in common["inputs"]]
    overrides = common.get("context", ContextOverrides())
    is_wrong = context_conflict(overrides, common["span"]) is not None  # reported already
    inherits = "full" if is_wrong else merge_context(kind, overrides).inherit_context
    relevance = common.get("context_relevance")
    if inherits == "subset" and relevance:
        names = [name for name, is_included in relevance if is_included]
    return reading.within(names) if inherits == "full" else reading.only_within(names)


def _read_script(element: Element, inside: Reading, common: dict[str, Any]) -> ast.TaskNode:
    command = element.child("command")
    return ast.Script(**common, **(read_command(command, inside) if command is not None else {}))


def _read_sequential(element: Element, inside: Reading, common: dict[str, Any]) -> ast.TaskNode:
    holder = element.child("steps")
    is_parallel = inside.boolean(element, "parallel") is True
    steps: list[ast.Node] = []
    for child in holder.children if holder is not None else ():
        steps.append(inside.node(child))
        if not is_parallel:
            inside = inside.within({*STEP_NAMES, *output_slots(steps[-1])})
    return ast.Sequential(**common, steps=tuple(steps), is_parallel=is_parallel)


def _read_reduce(element: Element, inside: Reading, common: dict[str, Any]) -> ast.TaskNode:
    initial = element.child("initial_value")
    return ast.Reduce(
        **common,
        initial_value=read_value(initial, inside) if initial is not None else None,
        inner_task=_read_part(element, "inner_task", inside.within({"input"})),
        reduction_task=_read_part(element, "reduction_task", inside.within(REDUCTION_NAMES)),
    )


def _read_director_loop(element: Element, inside: Reading, common: dict[str, Any]) -> ast.TaskNode:
    within = inside.within(frozenset(ast.LOOP_NAMES))
    return ast.DirectorEvaluatorLoop(
        **common,
        max_iterations=inside.count(element, "max_iterations"),
        director=_read_part(element, "director", within),
        evaluator=_read_part(element, "evaluator", within),
        script=_read_script_execution(element, within),
        termination_condition=_read_termination_condition(element, within),
    )


def _read_part(element: Element, tag: str, reading: Reading) -> ast.Node | None:
    """Parse a part such as `director` or `inner_task`, which is a task itself or contains one node."""
    role = element.child(tag)
    if role is None:
        return None
    nodes = [child for child in role.children if child.tag in NODES]
    if not nodes:
        return read_task(role, reading)
    if len(role.children) > 1 or role.attributes:
        message = f"<{tag}> is a task itself, or has one <{nodes[0].tag}> inside and nothing else"
        reading.found.note(role.span, "bad-value", message)
    return reading.node(nodes[0])


def _read_script_execution(element: Element, reading: Reading) -> ast.Script | None:
    holder = element.child("script_execution")
    if holder is None:
        return None
    command = holder.child("command")
    return ast.Script(
        span=holder.span,
        inputs=read_inputs(holder, reading, is_verbatim=False),
        timeout_seconds=reading.seconds(holder, "timeout"),
        **(read_command(command, reading) if command is not None else {}),
    )


def _read_termination_condition(element: Element, reading: Reading) -> ast.Condition | None:
    holder = element.child("termination_condition")
    if holder is None:
        return None
    condition = holder.child("condition")
    if condition is not None:
        return reading.condition(condition.text, condition.text_span)
    reading.missing(holder, "<termination_condition> needs a <condition>")
    return None


def output_slots(node: ast.Node) -> set[str]:
    """Return the node's `output_slot` as a set, empty if it has none."""
    return {node.output_slot} if isinstance(node, ast.TaskNode) and node.output_slot else set()


_READERS: Final[Mapping[str, Callable[[Element, Reading, dict[str, Any]], ast.TaskNode]]] = {
    "atomic": lambda element, inside, common: ast.Atomic(**common),
    "script": _read_script,
    "sequential": _read_sequential,
    "reduce": _read_reduce,
    "director_evaluator_loop": _read_director_loop,
}
