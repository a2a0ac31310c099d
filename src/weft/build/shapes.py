"""Shapes from Python types: `str` is `string`, `list[str]` is `string[]`, a dataclass its JSON Schema."""

import json
from typing import Any

import msgspec

from weft.language.problems import refuse
from weft.language.spans import Span

_NAMES: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
    dict[str, Any]: "object",
    list[Any]: "array",
    list[str]: "string[]",
    list[float]: "number[]",
    list[bool]: "boolean[]",
    list[dict]: "object[]",  # type: ignore[type-arg]  # as people write it
    list[dict[str, Any]]: "object[]",
}


def shape_of_type(annotation: Any, span: Span) -> str | None:
    """The shape that a type is; None where it says nothing (`Any`, `None`)."""
    if annotation is None or annotation is Any or annotation is type(None):
        return None
    try:
        if annotation in _NAMES:
            return _NAMES[annotation]
        return normal_schema(msgspec.json.schema(annotation))
    except TypeError as error:
        raise refuse(span, "bad-value", f"{annotation!r} has no JSON Schema: {error}") from None


def shape_text(shape: Any, span: Span) -> str | None:
    """A shape as it is kept: of a name or a path itself, of a JSON Schema or a type its text."""
    if isinstance(shape, dict):
        return normal_schema(shape)
    if not isinstance(shape, str):
        return shape_of_type(shape, span)
    if not shape.lstrip().startswith("{"):
        return shape
    try:
        return normal_schema(json.loads(shape))
    except (ValueError, RecursionError) as error:
        raise refuse(span, "bad-value", f"the schema is no JSON: {error}") from None


def normal_schema(schema: Any) -> str:
    """The one spelling of a JSON Schema. The order stays: models write properties in it, reasons first."""
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
