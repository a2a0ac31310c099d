"""Shapes of values: the names of `schema`, `returns` and parameter types, and JSON Schemas."""

import json
from collections.abc import Callable
from typing import Any, Final

import jsonschema_rs
from msgspec import UNSET, UnsetType

from weft.language.suggestions import nearest
from weft.language.xml.elements import Element
from weft.language.xml.reading import Reading
from weft.language.xml.values import json_value
from weft.language.xml.words import BLANK, shown


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _list_of(is_item: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(is_item, value))


SHAPES: Final[dict[str, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "[]": lambda value: isinstance(value, list),
    "string[]": _list_of(lambda value: isinstance(value, str)),
    "number[]": _list_of(_is_number),
    "boolean[]": _list_of(lambda value: isinstance(value, bool)),
    "object[]": _list_of(lambda value: isinstance(value, dict)),
    "number": _is_number,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
}
"""By name, whether a value has the shape."""


def read_shape(element: Element, text: str, what: str, reading: Reading) -> str | None:
    """The name of a shape."""
    name = text.strip(BLANK)
    if name in SHAPES:
        return name
    message = f"{what} '{shown(name)}' is no shape: expected {', '.join(SHAPES)}"
    reading.found.add(element.span, "bad-value", message + nearest(shown(name), SHAPES))
    return None


def read_schema(element: Element, text: str, reading: Reading) -> str | None:
    """A shape's name, the path of a JSON Schema file, or a JSON Schema in its one spelling."""
    written = text.strip(BLANK)
    if written.startswith("{"):
        return _read_json_schema(element, written, reading)
    if written.endswith(".json") and "\n" not in written:
        return written
    if written in SHAPES:
        return written
    message = (
        f"schema '{shown(written)}' is unknown: expected {', '.join(SHAPES)}, the path of a .json file, "
        "or a JSON Schema"
    )
    reading.found.add(element.span, "bad-value", message + nearest(shown(written), SHAPES))
    return None


def read_default(element: Element, text: str, shape: str | None, reading: Reading) -> Any | UnsetType:
    """The default of a parameter: text, or JSON when its type is not a string."""
    if shape is None or shape == "string":
        return text
    try:
        value = json_value(text)
    except ValueError:
        value = UNSET
    if value is not UNSET and SHAPES[shape](value):
        return value
    reading.found.add(element.span, "wrong-type", f"default '{shown(text)}' is not of type {shape}")
    return UNSET


def _read_json_schema(element: Element, written: str, reading: Reading) -> str | None:
    try:
        schema = json_value(written)
        jsonschema_rs.validator_for(schema, offline=True)  # without offline it fetches what $schema names
    except jsonschema_rs.ValidationError as error:
        reading.found.add(element.span, "bad-value", f"not a JSON Schema: {shown(error.message)}")
        return None
    except ValueError as error:
        reading.found.add(element.span, "bad-value", f"the schema is neither a name nor JSON: {error}")
        return None
    return json.dumps(schema, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
