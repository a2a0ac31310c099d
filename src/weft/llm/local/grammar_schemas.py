"""What a JSON Schema says of its values, for the grammar that is made of it."""

import json
from typing import Any

from weft.llm.errors import ModelError

_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")


def unusable(why: str) -> ModelError:
    """The error for a schema that no grammar can be made of."""
    return ModelError("configuration_error", f"no output can be held to this JSON Schema: {why}")


def merged(base: dict[str, Any], more: Any) -> Any:
    """Both schemas at once, as far as that can be said by putting them together."""
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
    """The types that a schema allows, by name or by what it says of them; None: any."""
    named = schema.get("type")
    names = [named] if isinstance(named, str) else named
    if isinstance(names, list):
        known = [name for name in names if name in _TYPES]
        if not known:
            raise unusable("a `type` in it is none of JSON's")
        return known
    if any(name in schema for name in ("properties", "required", "additionalProperties")):
        return ["object"]
    if any(name in schema for name in ("items", "prefixItems", "minItems", "maxItems")):
        return ["array"]
    if any(name in schema for name in ("minLength", "maxLength", "pattern", "format")):
        return ["string"]
    if any(name in schema for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")):
        return ["number"]
    return None


def type_of(value: Any) -> set[str]:
    """The types that a JSON value is of."""
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
    """Whether a schema lists its values, and nothing else decides about them."""
    return isinstance(items.get("enum"), list) and not items.keys() & {
        "$ref",
        "allOf",
        "anyOf",
        "oneOf",
        "const",
    }


def values_of(schema: dict[str, Any]) -> list[Any]:
    """The values of an enum that its type allows."""
    types = types_of(schema)
    fitting = [value for value in schema["enum"] if types is None or type_of(value) & set(types)]
    if not fitting:
        raise unusable("an `enum` in it has no value that its `type` allows")
    return fitting


def sameness(value: Any) -> str:
    """The same text for values that JSON takes for equal, as 1 and 1.0."""
    is_whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if is_whole else value, sort_keys=True)
