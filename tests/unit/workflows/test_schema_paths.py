"""What a schema says of a place in a value."""

import pytest

from weft.tasks.record import JsonObject
from weft.workflows.checks import NoSuchField, schema_at, types_of

TEXT: JsonObject = {"type": "string"}
CLOSED: JsonObject = {"type": "object", "properties": {"a": TEXT}, "additionalProperties": False}
OPEN: JsonObject = {"type": "object", "properties": {"a": TEXT}}


@pytest.mark.parametrize(
    ("schema", "path", "found"),
    [
        (CLOSED, "a", TEXT),
        (OPEN, "b", {}),
        (OPEN, "b.c.0", {}),
        ({}, "a.b", {}),
        ({"type": "array", "items": CLOSED}, "0.a", TEXT),
        ({"type": ["object", "array"]}, "x", {}),
        ({**CLOSED, "patternProperties": {"^x": {}}}, "xa", {}),
        ({"anyOf": [CLOSED, TEXT]}, "nothing", {}),
        ({"$ref": "#/definitions/x"}, "nothing", {}),
        ({"type": "object", "properties": {"a": True}}, "a.b", {}),
    ],
)
def test_what_is_known_of_a_place(schema: JsonObject, path: str, found: JsonObject) -> None:
    assert schema_at(schema, path.split(".")) == found


@pytest.mark.parametrize(
    ("schema", "path", "reason"),
    [
        (CLOSED, "b", "no field 'b'; it has a"),
        ({"type": "object", "additionalProperties": False}, "b", "it has no fields"),
        (CLOSED, "a.b", "a value of type string"),
        ({"type": "array"}, "first", "is not a list index"),
        ({"type": "array", "items": CLOSED}, "3.b", "no field 'b'"),
    ],
)
def test_what_is_certainly_not_there(schema: JsonObject, path: str, reason: str) -> None:
    with pytest.raises(NoSuchField, match=reason):
        schema_at(schema, path.split("."))


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        (TEXT, {"string"}),
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({"type": "integer"}, {"integer", "number"}),
        ({"anyOf": [TEXT, {"type": "null"}]}, {"string", "null"}),
        ({"oneOf": [TEXT, {}]}, None),
        ({}, None),
    ],
)
def test_the_types_that_a_schema_allows(schema: JsonObject, types: set[str] | None) -> None:
    assert types_of(schema) == types
