"""Schema files put into the tree, so that it says the same wherever it is evaluated."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from weft.language.deep import deep_stack
from weft.language.output_schemas import is_path
from weft.language.problems import refuse
from weft.language.spans import Span
from weft.language.task_fields import OutputFormat, Parameter
from weft.language.tree import Node, Template

ReadSchema = Callable[[str, str], str]
"""The text of a schema file: its path, and the program that names it."""


def with_inlined_schemas(template: Template, read: ReadSchema) -> Template:
    """The template with the text of every schema file that it names; raises InvalidProgram."""
    with deep_stack():
        inlined: Template = _inlined(template, template.span, read)
        return inlined


def _inlined(one: Any, span: Span, read: ReadSchema) -> Any:
    """The same object where nothing in it names a file."""
    if isinstance(one, tuple):
        parts = tuple(_inlined(part, span, read) for part in one)
        return one if all(map(_is_same, parts, one)) else parts
    if not isinstance(one, Struct) or isinstance(one, Span):
        return one
    if isinstance(one, Node):
        span = one.span
    changes: dict[str, Any] = {}
    for name in one.__struct_fields__:
        before = getattr(one, name)
        after = _text(before, span, read) if _is_shape(one, name) else _inlined(before, span, read)
        if after is not before:
            changes[name] = after
    return msgspec.structs.replace(one, **changes) if changes else one


def _is_same(after: Any, before: Any) -> bool:
    return after is before


def _is_shape(owner: Struct, field: str) -> bool:
    match owner:
        case OutputFormat():
            return field == "schema"
        case Parameter():
            return field == "type"
        case Template():
            return field == "returns"
        case _:
            return False


def _text(shape: str | None, span: Span, read: ReadSchema) -> str | None:
    if shape is None or not is_path(shape):
        return shape
    try:
        schema = msgspec.json.decode(read(shape.strip(), span.source.name))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise refuse(span, "bad-value", f"schema file '{shape}': {reason}") from None
    return msgspec.json.encode(schema, order="sorted").decode()
