"""Inference of constants, kinds and JSON types without evaluation."""

from collections.abc import Mapping
from typing import Any, Final

from weft.language import ast
from weft.language.builtins import BUILT_IN_NAMES, SIGNATURES, TASK_LIBRARY
from weft.language.check.scopes import Frame
from weft.language.diagnostics import Findings
from weft.language.fields import texts_of
from weft.language.schemas import BadSchema, CompiledSchema, is_path, parse_shape

UNKNOWN: Final[Any] = object()
"""Returned by `constant` for a node that is not a constant."""

_KINDS: Mapping[type, str] = {
    type(None): "nil",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
}

JSON_TYPES: Mapping[str | None, str] = {
    "nil": "null",
    "a boolean": "boolean",
    "a number": "number",
    "a string": "string",
    "a list": "array",
    "a dict": "object",
}
"""JSON types of the values of a kind, where that is certain."""


def constant(node: ast.Node | None, frame: Frame) -> Any:
    """Return the value of a constant node as JSON; UNKNOWN for all other nodes."""
    if isinstance(node, ast.Literal):
        return node.value
    if isinstance(node, ast.Quote):
        return _to_json(node.datum)
    if isinstance(node, ast.Text):
        parts = [part for part in node.parts if isinstance(part, str)]
        return "".join(parts) if len(parts) == len(node.parts) else UNKNOWN
    if isinstance(node, ast.FunctionCall) and frame.find(node.func_name) is None:
        return _constant_call(node, frame)
    return UNKNOWN


def _constant_call(node: ast.FunctionCall, frame: Frame) -> Any:
    """Return the value of a `list` or `dict` of constants, else UNKNOWN."""
    if not node.keywords and node.func_name == "list":
        items = [constant(item, frame) for item in node.args]
        return UNKNOWN if any(item is UNKNOWN for item in items) else items
    if not node.args and node.func_name == "dict":
        fields = {name: constant(value, frame) for name, value in node.keywords}
        return UNKNOWN if any(value is UNKNOWN for value in fields.values()) else fields
    return UNKNOWN


def _to_json(datum: ast.Datum) -> Any:
    if isinstance(datum, tuple):
        return [_to_json(item) for item in datum]
    return str(datum) if isinstance(datum, ast.Symbol) else datum


def kind_of(node: ast.Node | None, frame: Frame) -> str | None:
    """Return the kind of a node's value in the words of the language, such as "a list"; None: unknown."""
    if isinstance(node, ast.Literal):
        return _KINDS.get(type(node.value))
    if isinstance(node, ast.Quote):
        if isinstance(node.datum, ast.Symbol):
            return "a symbol"
        return "a list" if isinstance(node.datum, tuple) else _KINDS.get(type(node.datum))
    if isinstance(node, ast.Text):
        return "a string"
    if isinstance(node, ast.Lambda):
        return "a function"
    if isinstance(node, ast.Parallel):
        return "a list"
    if isinstance(node, ast.TaskNode | ast.TaskCond):
        return "a task result"
    if isinstance(node, ast.FunctionCall):
        return _kind_of_call(node, frame)
    if not isinstance(node, ast.Variable) or node.path or frame.find(node.name) is not None:
        return None
    if node.name == TASK_LIBRARY:
        return "the task library"
    return "a function" if node.name in BUILT_IN_NAMES else None


def length_of(node: ast.Node, frame: Frame) -> int | None:
    """Return the length of the list that a node evaluates to; None: unknown, or not a list."""
    if isinstance(node, ast.Quote) and isinstance(node.datum, tuple):
        return len(node.datum)
    is_list = isinstance(node, ast.FunctionCall) and node.func_name == "list" and frame.find("list") is None
    return len(node.args) if is_list and isinstance(node, ast.FunctionCall) else None


def _kind_of_call(node: ast.FunctionCall, frame: Frame) -> str | None:
    if frame.find(node.func_name) is None:
        signature = SIGNATURES.get(node.func_name)
        return None if signature is None else signature.result
    template = find_called_template(node, frame)
    return "a task result" if template is not None and isinstance(template.body, ast.TaskNode) else None


def find_called_template(node: ast.Node | None, frame: Frame) -> ast.Template | None:
    """Return the template that a node certainly calls by name, or None."""
    if not isinstance(node, ast.FunctionCall):
        return None
    cell = frame.find(node.func_name)
    return cell.value if cell is not None and isinstance(cell.value, ast.Template) else None


def known_shape(text: str | None) -> CompiledSchema | None:
    """Return the parsed shape; None: missing, invalid, or the path of a schema file (not read here)."""
    if text is None or is_path(text):
        return None
    try:
        return parse_shape(text)
    except BadSchema:
        return None


def types_of(text: str | None) -> frozenset[str] | None:
    """Return the JSON types that a shape allows; None: any, or unknown. An integer counts as a number."""
    shape = known_shape(text)
    if shape is None or not isinstance(shape.schema, dict):
        return None
    types = shape.schema.get("type")
    names = [types] if isinstance(types, str) else types
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    return frozenset("number" if name == "integer" else name for name in names)


def is_function(node: ast.Node | None, frame: Frame) -> bool:
    """Return whether a node certainly evaluates to a function, which is not a JSON value."""
    while isinstance(node, ast.Begin) and node.items:
        node = node.items[-1]
    return kind_of(node, frame) == "a function"


def check_json(node: ast.Node | None, what: str, frame: Frame, findings: Findings) -> None:
    """Note a function where a JSON value is required; `what` names the value in the message."""
    if node is not None and is_function(node, frame):
        findings.note(node.span, "wrong-type", f"{what} is a function, which cannot leave the program")


def leaves_program(template: ast.Template, name: str) -> bool:
    """Return whether an argument certainly leaves the program, in a text or as input of a step."""
    body = template.body
    if isinstance(body, ast.Atomic | ast.Script):
        shown = (part for text in texts_of(body) for part in text.parts if isinstance(part, ast.Variable))
        own = {one.name for one in body.inputs}
        return name not in own and any(part.name == name for part in shown)
    return not isinstance(body, ast.Sequential | ast.Reduce | ast.DirectorEvaluatorLoop)
