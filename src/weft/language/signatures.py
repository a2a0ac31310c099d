"""JSON Schemas of a template's arguments and of its result."""

from typing import Any

from msgspec import UNSET

from weft.language.ast import Atomic, Template
from weft.language.library import open_inputs
from weft.language.schemas import part_schema


def argument_schema(template: Template) -> dict[str, Any]:
    """Return a JSON Schema (draft-07) of the arguments that a caller may or must pass."""
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


def result_schema(template: Template) -> dict[str, Any]:
    """Return a JSON Schema of the TaskResult, with `parsedContent` as the template declares it."""
    text = {"type": "string"}
    return {
        "type": "object",
        "properties": {
            "content": text,
            "status": text,
            "criteria": text,
            "parsedContent": part_schema(_declared_shape(template)),
            "notes": {"type": "object"},
        },
        "additionalProperties": False,
    }


def _declared_shape(template: Template) -> str | None:
    """Return the shape that the template returns, else the output schema of its atomic body."""
    if template.returns is not None:
        return template.returns
    body = template.body
    output = body.output_format if isinstance(body, Atomic) else None
    return None if output is None else output.schema
