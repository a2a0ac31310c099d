"""Inference about outputs of tasks: the shape of their JSON and the types of their values."""

from weft.language import ast
from weft.language.check.inference import find_called_template, types_of
from weft.language.check.scopes import Cell, Frame

MAX_PARTS = 50
"""How many nested tasks are searched for the one that produces the output: templates may be recursive."""

TypesAndReason = tuple[frozenset[str], str]
"""The JSON types of a value, and the text that explains them in an error message."""


# The JSON output of a step


def output_shape(node: ast.Node, frame: Frame) -> str | None:
    """Return the shape of the JSON output of a step; None: unknown."""
    if isinstance(node, ast.FunctionCall) or (isinstance(node, ast.Reference) and node.output_format is None):
        template = _template_of(node, frame)
        if template is None or not isinstance(template.body, ast.Atomic | ast.Script):
            return None
        types = types_of(template.returns)
        returned = template.returns if types is not None and "string" not in types else None
        return json_shape(template.body) or returned
    return json_shape(node)


def json_shape(node: ast.Node) -> str | None:
    """Return the shape in the JSON output format of an atomic task or script; None: it declares no shape."""
    output = node.output_format if isinstance(node, ast.Atomic | ast.Script) else None
    return output.schema if output is not None and output.type == "json" else None


# The value that other tasks receive


def result_cell(node: ast.Node | None, frame: Frame) -> Cell:
    """Return a cell for a name bound to a node; a task, or a certain call of a template, is its producer."""
    cell = Cell()
    if node is not None and (isinstance(node, ast.TaskNode) or find_called_template(node, frame) is not None):
        cell.producer = node, frame
    return cell


def value_types(node: ast.Node | None, frame: Frame) -> TypesAndReason | None:
    """Return the types of the value that other tasks receive from a task or call; None: unknown.

    The value is the parsed content of the result, else its content. Without an output format, the type of a
    model's response is unknown: effects may parse it.
    """
    for _ in range(MAX_PARTS):
        if node is None:
            return None
        output = node.output_format if isinstance(node, ast.TaskNode) else None
        if output is not None and output.type == "json" and output.schema is not None:
            reason = f"the output format of the task that gives it says {output.schema}"
            known = _types_with_reason(output.schema, reason)
            if known is not None:
                return known
        if isinstance(node, ast.FunctionCall | ast.Reference):
            template = _template_of(node, frame)
            if template is None:
                return None
            if template.returns is not None:
                return _types_with_reason(template.returns, f"{template.name} returns {template.returns}")
            node = template.body
        elif isinstance(node, ast.Sequential) and node.is_parallel:
            return frozenset({"array"}), "a parallel task returns a list"
        elif isinstance(node, ast.Script) and node.output_format is None:
            return frozenset({"string"}), "a script without an output format returns a string"
        else:
            node = _find_result_part(node)
    return None


def _types_with_reason(shape: str, reason: str) -> TypesAndReason | None:
    types = types_of(shape)
    return None if types is None else (types, reason)


def _find_result_part(node: ast.Node) -> ast.Node | None:
    """Return the part of a composite task that produces the result of the whole task."""
    if isinstance(node, ast.TaskNode) and node.output_format is not None:
        return None  # its output format does not say which type
    if isinstance(node, ast.Sequential):
        return node.steps[-1] if node.steps else None
    if isinstance(node, ast.DirectorEvaluatorLoop):
        return node.director
    return node.reduction_task if isinstance(node, ast.Reduce) and node.inputs else None


def _template_of(node: ast.Node, frame: Frame) -> ast.Template | None:
    """Return the template that a call or reference certainly calls, or None."""
    if not isinstance(node, ast.Reference):
        return find_called_template(node, frame)
    while frame.outer is not None:
        frame = frame.outer
    cell = frame.get(node.ref)
    return cell.value if cell is not None and isinstance(cell.value, ast.Template) else None
