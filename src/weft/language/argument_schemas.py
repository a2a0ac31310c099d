"""The JSON Schema of a template's arguments, from its parameters."""

from typing import Any

from msgspec import UNSET

from weft.language.check.calls import open_inputs
from weft.language.output_schemas import BadSchema, shape_of
from weft.language.tree import Template


def argument_schema(template: Template) -> dict[str, Any]:
    """What a caller may pass and must: JSON Schema draft-07."""
    properties: dict[str, Any] = {}
    required = []
    for parameter in template.parameters:
        schema = _schema(parameter.type)
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


def _schema(shape: str | None) -> Any:
    """The schema of a type; anything goes where it cannot be put into another: the call checks it again."""
    if shape is None or '"$' in shape:
        return {}
    try:
        return shape_of(shape).schema
    except BadSchema:
        return {}
