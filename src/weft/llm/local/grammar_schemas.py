"""Functions that read and combine JSON Schemas for their conversion into a grammar."""

import json
from typing import Any

from weft.llm.errors import ModelError

_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_IMPLIED_TYPES = {
    "object": ("properties", "required", "additionalProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
}
"""Types of schemas without `type`, and the keywords that imply them."""


def unusable(why: str) -> ModelError:
    """Return the error for a schema that cannot be converted into a grammar."""
    return ModelError("configuration_error", f"this JSON Schema cannot be enforced: {why}")


def merged(base: dict[str, Any], more: Any) -> Any:
    """Return one schema for two that must both hold.

    `properties` and `required` are combined; any other keyword in both is taken from `more`.
    """
    if not base or more is False:
        return more
    if not isinstance(more, dict):
        return base
    both = {**base, **more}
    if isinstance(base.get("properties"), dict) and isinstance(more.get("properties"), dict):
        both["properties"] = {**base["properties"], **more["properties"]}
    if isinstance(base.get("required"), list) and isinstance(more.get("required"), list):
        both["required"] = [*base["required"], *more["required"]]
    return both


def types_of(schema: dict[str, Any]) -> list[str] | None:
    """Return the types that a schema allows, declared or implied by its keywords; None for any type."""
    named = schema.get("type")
    names = [named] if isinstance(named, str) else named
    if isinstance(names, list):
        known = [name for name in names if name in _TYPES]
        if not known:
            raise unusable("it contains an unknown `type`")
        return known
    return next(
        ([kind] for kind, words in _IMPLIED_TYPES.items() if not schema.keys().isdisjoint(words)), None
    )


def type_of(value: Any) -> set[str]:
    """Return the JSON Schema types of a value; an integer has two."""
    match value:
        case bool():
            return {"boolean"}
        case int():
            return {"integer", "number"}
        case float():
            return {"number", "integer"} if value.is_integer() else {"number"}
        case str():
            return {"string"}
        case list():
            return {"array"}
        case dict():
            return {"object"}
    return {"null"}


def is_plain_enum(items: dict[str, Any]) -> bool:
    """Return True if a schema has an `enum` and no `$ref`, `const`, `allOf`, `anyOf` or `oneOf`."""
    others = ("$ref", "allOf", "anyOf", "oneOf", "const")
    return isinstance(items.get("enum"), list) and items.keys().isdisjoint(others)


def values_of(schema: dict[str, Any]) -> list[Any]:
    """Return the values of an `enum` that its `type` allows."""
    types = types_of(schema)
    fitting = [value for value in schema["enum"] if types is None or type_of(value) & set(types)]
    if not fitting:
        raise unusable("an `enum` in it has no value that its `type` allows")
    return fitting


def equality_key(value: Any) -> str:
    """Return a text that is the same for equal values; 1 equals 1.0, but not inside lists and objects."""
    is_whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if is_whole else value, sort_keys=True)
