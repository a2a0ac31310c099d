"""The JSON Schema of what a task that calls a template gives: who maps inputs from it is told."""

from typing import Any

from weft.language.output_schemas import part_schema
from weft.language.tree import Atomic, Template


def result_schema(template: Template) -> dict[str, Any]:
    """A TaskResult in JSON, and of its parsed content what the template promises."""
    text = {"type": "string"}
    return {
        "type": "object",
        "properties": {
            "content": text,
            "status": text,
            "criteria": text,
            "parsedContent": part_schema(_promised(template)),
            "notes": {"type": "object"},
        },
        "additionalProperties": False,
    }


def _promised(template: Template) -> str | None:
    """The shape of the value: the template's own, else that of the one task it is."""
    if template.returns is not None:
        return template.returns
    body = template.body
    output = body.output_format if isinstance(body, Atomic) else None
    return None if output is None else output.schema
