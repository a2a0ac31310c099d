"""What a JSON Schema says of a place in a value. Only what is certain: the rest is told when it runs."""

from collections.abc import Iterable
from typing import Any

from weft.tasks.input_mappings import is_index
from weft.tasks.problems import nearest
from weft.tasks.record import JsonObject

_COMBINED = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "not"})
"""Keywords whose effect on a field cannot be read off `properties` alone."""

_ANYTHING: JsonObject = {}


class NoSuchField(Exception):
    """A path leads to what a value of the schema never has."""


def schema_at(schema: JsonObject, parts: Iterable[str]) -> JsonObject:
    """The schema of what a path leads to, `{}` when nothing is known; raises NoSuchField."""
    for part in parts:
        if not _COMBINED.isdisjoint(schema):
            return _ANYTHING
        schema = _inside(schema, part)
    return schema


def types_of(schema: JsonObject) -> frozenset[str] | None:
    """The JSON types that a schema allows; None when it does not say."""
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema and "type" not in schema:
            each = [types_of(_schema(part)) for part in schema[keyword]]
            return None if None in each else frozenset().union(*(part for part in each if part))
    found: Any = schema.get("type")
    if found is None:
        return None
    types = frozenset([found] if isinstance(found, str) else found)
    # An integer is a number, and a number may be a whole one.
    return types | {"integer", "number"} if types & {"integer", "number"} else types


def _inside(schema: JsonObject, part: str) -> JsonObject:
    types = types_of(schema)
    if types is not None and types.isdisjoint({"object", "array"}):
        raise NoSuchField(f"there is no {part!r} in what is no object: it is {' or '.join(sorted(types))}")
    fields: JsonObject = schema.get("properties", {})
    if part in fields:
        return _schema(fields[part])
    if types == frozenset({"array"}):
        if not is_index(part):
            raise NoSuchField(f"{part!r} is no index of a list")
        return _schema(schema.get("items"))
    is_closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    if types == frozenset({"object"}) and is_closed:
        known = f"; it has {', '.join(fields)}" if fields else "; it has no fields"
        raise NoSuchField(f"there is no field {part!r}{nearest(part, fields) or known}")
    return _ANYTHING


def _schema(found: Any) -> JsonObject:
    return found if isinstance(found, dict) else _ANYTHING
