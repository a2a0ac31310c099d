"""JSON Schemas that a provider is to hold an answer to, in a form that it takes."""

import json
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from weft.llm.providers.access import Kind

_WRAPPED = "value"


class HeldOutput(Struct, frozen=True):
    """A schema for the provider. Providers take only objects: anything else is put into one."""

    schema: dict[str, Any]
    is_wrapped: bool = False

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
    """How a provider of that kind is told the schema; None when it could not be told without changing it."""
    if not schema or (kind == "anthropic" and not all(map(_is_closed, _parts(schema)))):
        return None
    if schema.get("type") == "object" and not {"$ref", "anyOf", "oneOf", "allOf"} & schema.keys():
        return HeldOutput(schema)
    if any(part.get("$ref") == "#" for part in _parts(schema)):
        return None  # it names itself, and would name the object around it
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
    return HeldOutput(outer, is_wrapped=True)


def _is_closed(part: dict[str, Any]) -> bool:
    """Whether all properties of an object are named: Anthropic allows no others, so an open one is empty."""
    if part.get("type") != "object" and "properties" not in part:
        return "additionalProperties" not in part
    return bool(part.get("properties")) and part.get("additionalProperties", False) is False


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    """The schema and all schemas in it; names of properties and constants are none."""
    stack = [schema]
    while stack:
        part = stack.pop()
        if isinstance(part, list):
            stack.extend(part)
        elif isinstance(part, dict):
            yield part
            for name, value in part.items():
                if name in ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"):
                    stack.extend(value.values() if isinstance(value, dict) else ())
                elif name not in ("enum", "const", "default", "examples", "required"):
                    stack.append(value)
