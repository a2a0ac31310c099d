"""Shapes of values: the names of `schema`, `returns` and parameter types, and JSON Schemas."""

import json
from typing import Any

import jsonschema_rs
from msgspec import UNSET, UnsetType

from weft.language.output_schemas import NAMED_SCHEMAS, shape_of
from weft.language.suggestions import nearest
from weft.language.xml.elements import Element
from weft.language.xml.reading import Reading
from weft.language.xml.values import json_value
from weft.language.xml.words import BLANK, shown


def read_shape(element: Element, text: str, what: str, reading: Reading) -> str | None:
    """The name of a shape."""
    name = text.strip(BLANK)
    if name in NAMED_SCHEMAS:
        return name
    message = f"{what} '{shown(name)}' is no shape: expected {', '.join(NAMED_SCHEMAS)}"
    reading.found.add(element.span, "bad-value", message + nearest(shown(name), NAMED_SCHEMAS))
    return None


def read_schema(element: Element, text: str, reading: Reading) -> str | None:
    """A shape's name, the path of a JSON Schema file, or a JSON Schema in its one spelling."""
    written = text.strip(BLANK)
    if written.startswith("{"):
        return _read_json_schema(element, written, reading)
    if written.endswith(".json") and "\n" not in written:
        return written
    if written in NAMED_SCHEMAS:
        return written
    message = (
        f"schema '{shown(written)}' is unknown: expected {', '.join(NAMED_SCHEMAS)}, the path of a .json "
        "file, or a JSON Schema"
    )
    reading.found.add(element.span, "bad-value", message + nearest(shown(written), NAMED_SCHEMAS))
    return None


def read_default(element: Element, text: str, shape: str | None, reading: Reading) -> Any | UnsetType:
    """The default of a parameter: text, or JSON when its type is not a string."""
    if shape is None or shape == "string":
        return text
    try:
        value = json_value(text)
    except ValueError:
        value = UNSET
    if value is not UNSET and not shape_of(shape).violations(value):
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
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
