"""Parse tasks of every type."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from weft.language.ast import (
    LOOP_NAMES,
    Atomic,
    Condition,
    DirectorEvaluatorLoop,
    Node,
    Reduce,
    Reference,
    Script,
    Sequential,
    TaskNode,
)
from weft.language.diagnostics import InvalidProgram
from weft.language.fields import ContextKind, merge_context
from weft.language.xml.elements import Element
from weft.language.xml.fields import (
    read_assembly,
    read_command,
    read_context,
    read_file_paths,
    read_history,
    read_inputs,
    read_output_format,
    read_relevance,
    read_tools,
    read_value,
)
from weft.language.xml.reader import NODES, NOTHING, Reading, child_text
from weft.language.xml.text import BLANK, CALLED

KIND_OF_FIELD: Final[Mapping[str, ContextKind]] = {
    "steps": "sequential",
    "parallel": "sequential",
    "initial_value": "reduce",
    "inner_task": "reduce",
    "reduction_task": "reduce",
    "command": "script",
    "max_iterations": "director_evaluator_loop",
    "director": "director_evaluator_loop",
    "evaluator": "director_evaluator_loop",
    "script_execution": "director_evaluator_loop",
    "termination_condition": "director_evaluator_loop",
}
"""Fields that only one type of task has, with that type."""

STEP_NAMES: Final = frozenset({"steps", "last_output"})
REDUCTION_NAMES: Final = frozenset({"current_result", "accumulator", "original_input"})


def read_task(element: Element, reading: Reading) -> Node:
    """Parse a task, in whatever element: `task`, `director`, `inner_task` ..."""
    if "ref" in element.attributes:
        return _read_reference(element, reading)
    is_loop = element.tag == "director_evaluator_loop"
    kind: Any = element.tag if is_loop else element.attributes.get("type", "atomic")
    _check_fields(element, kind, reading)
    common = _read_common_fields(element, reading)
    return _READERS[kind](element, _inside(kind, common, reading), common)


def _read_reference(element: Element, reading: Reading) -> Node:
    _check_fields(element, None, reading)
    name = reading.name(element, element.attributes["ref"], "ref", CALLED)
    return Reference(**_read_common_fields(element, reading), ref=name)


def _check_fields(element: Element, kind: ContextKind | None, reading: Reading) -> None:
    """Report fields that belong to other types of task."""
    written = [(child.tag, child.span) for child in element.children]
    written += [(name, element.span) for name in element.attributes if not element.child(name)]
    for name, span in written:
        owner = KIND_OF_FIELD.get(name, kind)
        if owner != kind:
            what = f"is of type {kind}" if kind else "has ref, so the template decides its type"
            message = f'{name} belongs to a task of type {owner}, but this one {what}; write type="{owner}"'
            reading.found.add(span, "bad-value", message)


def _inside(kind: ContextKind, common: Mapping[str, Any], reading: Reading) -> Reading:
    """Return the parser state inside the task: its inputs are in scope, and outer names if inherited."""
    names = [one.name for one in common["inputs"]]
    try:
        inherits = merge_context(kind, common["context"], common["span"]).inherit_context
    except InvalidProgram:  # reported by `read_context`
        inherits = "full"
    if inherits == "subset" and common["context_relevance"]:
        names = [name for name, is_included in common["context_relevance"] if is_included]
    return reading.within(names) if inherits == "full" else reading.only_within(names)


def _read_common_fields(element: Element, reading: Reading) -> dict[str, Any]:
    is_verbatim = reading.boolean(element, "manual_xml") is True
    texts = {name: element.child(name) for name in ("description", "instructions", "system")}
    names = {name: child_text(element, name) for name in ("output_slot", "input_source")}
    return {
        "span": element.span,
        "subtype": element.attributes.get("subtype"),
        **{
            name: reading.text(child, is_verbatim=is_verbatim)
            for name, child in texts.items()
            if child is not None and child.text.strip(BLANK)
        },
        **{name: child_text(element, name) for name in ("model", "provider", "criteria")},
        "inputs": read_inputs(element, reading, is_verbatim=is_verbatim),
        **{name: reading.name(element, text, name) for name, text in names.items() if text},
        "output_format": read_output_format(element, reading),
        "context": read_context(element, reading),
        "context_relevance": read_relevance(element, reading),
        "context_assembly": read_assembly(element),
        "file_paths": read_file_paths(element, reading),
        "history": read_history(element, reading),
        "tools": read_tools(element, reading),
        "timeout_seconds": reading.seconds(element, "timeout"),
        "max_depth": reading.count(element, "max_depth"),
        "reuse": reading.boolean(element, "reuse"),
        "manual_xml": is_verbatim,
        "disable_reparsing": reading.boolean(element, "disable_reparsing") is True,
    }


def _read_atomic(element: Element, inside: Reading, common: dict[str, Any]) -> TaskNode:
    if "description" not in common and "instructions" not in common:
        inside.missing(element, "an atomic task needs a <description> or <instructions>: it is the prompt")
    return Atomic(**common)


def _read_script(element: Element, inside: Reading, common: dict[str, Any]) -> TaskNode:
    command = element.child("command")
    return Script(**common, **(read_command(command, inside) if command is not None else {}))


def _read_sequential(element: Element, inside: Reading, common: dict[str, Any]) -> TaskNode:
    holder = element.child("steps")
    if holder is None or not holder.children:
        inside.missing(holder or element, "a task of type sequential needs <steps> with at least one step")
    is_parallel = inside.boolean(element, "parallel") is True
    steps: list[Node] = []
    for child in holder.children if holder is not None else ():
        steps.append(inside.node(child))
        if not is_parallel:
            inside = inside.within({*STEP_NAMES, *output_slots(steps[-1])})
    return Sequential(**common, steps=tuple(steps), is_parallel=is_parallel)


def _read_reduce(element: Element, inside: Reading, common: dict[str, Any]) -> TaskNode:
    initial = element.child("initial_value")
    return Reduce(
        **common,
        initial_value=read_value(initial, inside) if initial is not None else None,
        inner_task=_read_part(element, "inner_task", inside.within({"input"})),
        reduction_task=_read_part(element, "reduction_task", inside.within(REDUCTION_NAMES)),
    )


def _read_director_loop(element: Element, inside: Reading, common: dict[str, Any]) -> TaskNode:
    within = inside.within(frozenset(LOOP_NAMES))
    has_evaluator = element.child("evaluator") is not None
    if not has_evaluator and not common["criteria"]:
        inside.missing(element, "a loop needs an <evaluator>, or <criteria> by which to find one")
    return DirectorEvaluatorLoop(
        **common,
        max_iterations=inside.count(element, "max_iterations"),
        director=_read_part(element, "director", within),
        evaluator=_read_part(element, "evaluator", within) if has_evaluator else None,
        script=_read_script_execution(element, within),
        termination_condition=_read_termination_condition(element, within),
    )


def _read_part(element: Element, tag: str, reading: Reading) -> Node:
    """Parse a part such as `director` or `inner_task`, which is a task itself or contains one node."""
    role = element.child(tag)
    if role is None:
        reading.missing(element, f"a task of type {KIND_OF_FIELD[tag]} needs a <{tag}>")
        return NOTHING
    nodes = [child for child in role.children if child.tag in NODES]
    if not nodes:
        return read_task(role, reading)
    if len(role.children) > 1 or role.attributes:
        message = f"<{tag}> is a task itself, or has one <{nodes[0].tag}> inside and nothing else"
        reading.found.add(role.span, "bad-value", message)
    return reading.node(nodes[0])


def _read_script_execution(element: Element, reading: Reading) -> Script | None:
    holder = element.child("script_execution")
    if holder is None:
        return None
    command = holder.child("command")
    if command is None:
        reading.missing(holder, "<script_execution> needs a <command>")
    return Script(
        span=holder.span,
        inputs=read_inputs(holder, reading, is_verbatim=False),
        timeout_seconds=reading.seconds(holder, "timeout"),
        **(read_command(command, reading) if command is not None else {}),
    )


def _read_termination_condition(element: Element, reading: Reading) -> Condition | None:
    holder = element.child("termination_condition")
    condition = holder.child("condition") if holder is not None else None
    if holder is not None and condition is None:
        reading.missing(holder, "<termination_condition> needs a <condition>")
    if condition is None:
        return None
    return reading.condition(condition.text, condition.text_span)


def output_slots(node: Node) -> set[str]:
    """Return the node's `output_slot` as a set, empty if it has none."""
    return {node.output_slot} if isinstance(node, TaskNode) and node.output_slot else set()


_READERS: Final[Mapping[str, Callable[[Element, Reading, dict[str, Any]], TaskNode]]] = {
    "atomic": _read_atomic,
    "script": _read_script,
    "sequential": _read_sequential,
    "reduce": _read_reduce,
    "director_evaluator_loop": _read_director_loop,
}
