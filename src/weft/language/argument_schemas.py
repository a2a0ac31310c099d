"""The JSON Schema of a template's arguments, from its parameters."""

from typing import Any

from msgspec import UNSET

from weft.language.check.calls import open_inputs
from weft.language.output_schemas import part_schema
from weft.language.tree import Template


def argument_schema(template: Template) -> dict[str, Any]:
    """What a caller may pass and must: JSON Schema draft-07."""
    properties: dict[str, Any] = {}
    required = []
    for parameter in template.parameters:
        schema = part_schema(parameter.type)
        if parameter.default is UNSET:
            required.append(parameter.name)
        elif isinstance(schema, dict):
            schema = {**schema, "default": parameter.default}
        properties[parameter.name] = schema
    for name, is_needed in open_inputs(template).items():
        if name not in properties:
            properties[name] = {}
            required += [name] if is_needed else []
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
