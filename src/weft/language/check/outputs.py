"""What is known of the output of a task before it runs: the shape of its JSON, the types of its value."""

from weft.language.ast import (
    Atomic,
    DirectorEvaluatorLoop,
    FunctionCall,
    Node,
    Reduce,
    Reference,
    Script,
    Sequential,
    TaskNode,
    Template,
)
from weft.language.check.inference import template_called, types_of
from weft.language.check.scopes import Cell, Frame, Made

MAX_PARTS = 50
"""How many tasks inside tasks are followed to the one that gives the output: templates call each other."""

Resolved = tuple[frozenset[str], str]
"""JSON types of a value, and why it has them."""


# The JSON that a step says


def output_shape(node: Node, frame: Frame) -> str | None:
    """Return the shape of the JSON that a step says; None: it is not known."""
    if isinstance(node, FunctionCall) or (isinstance(node, Reference) and node.output_format is None):
        template = _template_of(node, frame)
        return _shape_of_template(template) if template is not None else None
    return json_shape(node)


def json_shape(node: Node) -> str | None:
    """Return the shape of what a task must say by its output format."""
    output = node.output_format if isinstance(node, Atomic | Script) else None
    return output.schema if output is not None and output.type == "json" else None


def _shape_of_template(template: Template) -> str | None:
    if not isinstance(template.body, Atomic | Script):
        return None
    return json_shape(template.body) or _returned(template)


def _returned(template: Template) -> str | None:
    types = types_of(template.returns)
    return template.returns if types is not None and "string" not in types else None


# The value that a task gives to others


def made_of(node: Node | None, frame: Frame) -> Made | None:
    """Return the task or call whose result a binding to this node has; None: it may be another value."""
    is_made = isinstance(node, TaskNode) or template_called(node, frame) is not None
    return (node, frame) if is_made and node is not None else None


def made_cell(node: Node | None, frame: Frame) -> Cell:
    """Return the cell of a name that is bound to the result of a task."""
    cell = Cell()
    cell.made = made_of(node, frame)
    return cell


def value_types(node: Node | None, frame: Frame) -> Resolved | None:
    """Return the types that the result of a task or call has where others take it; None: not known.

    That is the type of its parsed content, else of its content. What a model says without an output format
    is not known: effects may parse it.
    """
    for _ in range(MAX_PARTS):
        if node is None:
            return None
        if isinstance(node, TaskNode) and (known := _formatted(node)) is not None:
            return known
        if isinstance(node, FunctionCall | Reference):
            template = _template_of(node, frame)
            if template is None:
                return None
            if template.returns is not None:
                return _because(template.returns, f"{template.name} returns {template.returns}")
            node = template.body
        elif isinstance(node, Sequential) and node.is_parallel:
            return frozenset({"array"}), "a parallel task gives a list"
        elif isinstance(node, Script) and node.output_format is None:
            return frozenset({"string"}), "a script without an output format gives a string"
        else:
            node = _decisive(node)
    return None


def _formatted(node: TaskNode) -> Resolved | None:
    output = node.output_format
    if output is None or output.type != "json" or output.schema is None:
        return None
    return _because(output.schema, f"the output format of the task that gives it says {output.schema}")


def _because(shape: str, reason: str) -> Resolved | None:
    types = types_of(shape)
    return None if types is None else (types, reason)


def _decisive(node: Node) -> Node | None:
    """Return the part of a composite task whose result is that of the whole."""
    if isinstance(node, TaskNode) and node.output_format is not None:
        return None  # JSON of any type
    if isinstance(node, Sequential):
        return node.steps[-1] if node.steps else None
    if isinstance(node, DirectorEvaluatorLoop):
        return node.director
    return node.reduction_task if isinstance(node, Reduce) and node.inputs else None


def _template_of(node: Node, frame: Frame) -> Template | None:
    """Return the template that a call or reference means, when that is certain."""
    if not isinstance(node, Reference):
        return template_called(node, frame)
    while frame.outer is not None:
        frame = frame.outer
    cell = frame.get(node.ref)
    return cell.value if cell is not None and isinstance(cell.value, Template) else None
