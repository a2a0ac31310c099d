"""JSON Schemas that a provider is to hold an answer to, in a form that it takes."""

import graphlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from weft.llm.providers.access import Kind

_WRAPPED = "value"

_MEANING = frozenset({"type", "enum", "const", "anyOf", "$ref"})
"""What says which values a part stands for; without any of them a part is JSON of any shape."""
_NOTES = frozenset({"$schema", "$defs", "definitions", "title", "description"})
_BASIC = _MEANING | _NOTES | {"properties", "required", "additionalProperties", "items"}
_BOUNDS = frozenset({"minimum", "maximum", "minItems", "maxItems"})
_ENFORCED: dict[Kind, frozenset[str]] = {
    "openai": _BASIC | _BOUNDS | {"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern"},
    "anthropic": _BASIC,
    "google": _BASIC | _BOUNDS | {"prefixItems", "oneOf"},
}
"""The keywords that a provider enforces. Others are dropped, ignored or refused by it."""
_DESCRIBED = _BOUNDS | {"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern", "format", "default"}
"""Keywords that the client of Anthropic moves into descriptions; it refuses what else is not basic."""


class HeldOutput(Struct, frozen=True):
    """A schema for the provider. Providers take only objects: anything else is put into one."""

    schema: dict[str, Any]
    is_wrapped: bool = False
    is_enforced: bool = True
    """Whether the provider enforces all of the schema. What it does not enforce, the prompt must state."""
    is_strict: bool | None = None
    """False: the client must not fit the schema to OpenAI's strict mode, for that closes open objects."""

    def unwrapped(self, text: str) -> str:
        """The answer itself; as it came when it is not what was asked for."""
        if not self.is_wrapped:
            return text
        try:
            value = json.loads(text)
        except ValueError:
            return text
        if not isinstance(value, dict) or list(value) != [_WRAPPED]:
            return text
        return json.dumps(value[_WRAPPED], ensure_ascii=False)


def held_output(schema: dict[str, Any], kind: Kind) -> HeldOutput | None:
    """Return how a provider of that kind gets the schema; None when it cannot get it without changing it."""
    parts = list(_parts(schema))
    if not schema or not _keeps_meaning(schema, parts, kind):
        return None
    is_enforced = all(_is_enforced(part, kind) for part in parts)
    is_strict = False if kind == "openai" and not is_enforced else None
    if schema.get("type") == "object" and not {"$ref", "anyOf", "oneOf", "allOf"} & schema.keys():
        return HeldOutput(schema, is_enforced=is_enforced, is_strict=is_strict)
    if any(
        str(part.get("$ref", "#/$defs/")).split("/")[1:2] not in (["$defs"], ["definitions"])
        for part in parts
    ):
        return None  # it refers to a place that moves when an object is put around it
    inner = dict(schema)
    outer: dict[str, Any] = {
        name: inner.pop(name) for name in ("$schema", "$defs", "definitions") if name in inner
    }
    outer |= {
        "type": "object",
        "properties": {_WRAPPED: inner},
        "required": [_WRAPPED],
        "additionalProperties": False,
    }
    return HeldOutput(outer, is_wrapped=True, is_enforced=is_enforced, is_strict=is_strict)


def _is_enforced(part: dict[str, Any], kind: Kind) -> bool:
    """Return whether the provider enforces this part, leaving aside the schemas in it."""
    if part.keys() - _ENFORCED[kind] or ("const" in part and part["const"] is None and kind == "google"):
        return False
    if "$ref" in part and (not _is_definition(part["$ref"]) or _is_cut(part, kind)):
        return False
    if kind != "openai":
        return True
    # Strict mode takes no optional properties, no further ones, and no JSON of any shape.
    is_complete = set(part.get("properties", ())) == set(part.get("required", ()))
    is_typed = bool(part.keys() & _MEANING) and ("array" not in _types(part) or bool(part.get("items")))
    return _is_closed(part) and is_complete and is_typed


def _keeps_meaning(schema: dict[str, Any], parts: Sequence[dict[str, Any]], kind: Kind) -> bool:
    """Return whether the schema reaches the provider, through its client, with its meaning.

    Google gives `{}` for an object without named properties. The client of Anthropic closes every object, and
    fails for type lists, parts of any shape and definitions that refer to themselves; it writes
    `definitions` into a description, where no reference finds them.
    """
    if kind == "google":
        return all("properties" in part or "object" not in _types(part) for part in parts)
    return kind == "openai" or (not _is_recursive(schema) and all(map(_fits_anthropic, parts)))


def _fits_anthropic(part: dict[str, Any]) -> bool:
    is_known = bool(part.keys() & _MEANING) and not part.keys() - _BASIC - _DESCRIBED
    is_found = "definitions" not in part and _is_definition(part.get("$ref", "#/$defs/"))
    return is_known and is_found and _is_closed(part) and not isinstance(part.get("type"), list)


def _is_closed(part: dict[str, Any]) -> bool:
    """Return whether a part that allows objects names all their properties."""
    if "object" not in _types(part) and not part.keys() & {"properties", "additionalProperties"}:
        return True
    return "properties" in part and part.get("additionalProperties") is False


def _types(part: dict[str, Any]) -> list[Any]:
    named = part.get("type")
    return named if isinstance(named, list) else [named]


def _is_definition(reference: Any) -> bool:
    """Return whether a reference leads to a definition or the root: the clients follow no others."""
    return reference == "#" or str(reference).startswith(("#/$defs/", "#/definitions/"))


def _is_cut(part: dict[str, Any], kind: Kind) -> bool:
    """Return whether something stands beside a reference that does not reach the provider.

    The client of Anthropic leaves out all of it; others take notes, and no second condition.
    """
    beside = part.keys() - {"$ref", "$schema", "$defs", "definitions"}
    return bool(beside) if kind == "anthropic" else bool(beside & _BASIC - _NOTES)


def _is_recursive(schema: dict[str, Any]) -> bool:
    """Return whether a definition refers to itself, at once or through others."""
    wanted = {
        f"#/{room}/{name}": {part["$ref"] for part in _parts(definition) if "$ref" in part}
        for room in ("$defs", "definitions")
        for name, definition in schema.get(room, {}).items()
    }
    wanted["#"] = {part["$ref"] for part in _parts(schema) if part.get("$ref") == "#"}
    try:
        graphlib.TopologicalSorter(wanted).prepare()
    except graphlib.CycleError:
        return True
    return False


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the schema and all schemas in it; names of properties and constants are not schemas."""
    stack = [schema]
    while stack:
        part = stack.pop()
        if isinstance(part, list):
            stack.extend(part)
        elif isinstance(part, dict):
            yield part
            for name, value in part.items():
                if name in ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"):
                    stack.extend(map(_spelled_out, value.values() if isinstance(value, dict) else ()))
                elif name in ("items", "prefixItems", "anyOf", "oneOf", "allOf", "not", "contains"):
                    stack.extend(map(_spelled_out, value if isinstance(value, list) else [value]))
                elif name not in ("enum", "const", "default", "examples", "required"):
                    stack.append(value)


def _spelled_out(schema: Any) -> Any:
    """Return the object that a boolean schema stands for: anything, or nothing."""
    if isinstance(schema, bool):
        return {} if schema else {"not": {"type": ["null", "boolean", "number", "string", "array", "object"]}}
    return schema
