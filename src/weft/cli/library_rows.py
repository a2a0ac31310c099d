"""Registered templates as commands show them."""

from weft.store.templates import RegisteredTemplate
from weft.tasks.record import JsonObject


def summary_json(template: RegisteredTemplate) -> JsonObject:
    """A template without its text."""
    return {
        "name": template.name,
        "version": template.version,
        "user_id": template.user_id,
        "type": template.facts.type,
        "summary": template.facts.summary,
        "input_schema": template.facts.input_schema,
        "created_at": template.created_at,
        "removed_at": template.removed_at,
    }


def arguments_line(template: RegisteredTemplate) -> str:
    """Its arguments as a person would write them: `code [style]`."""
    schema = template.facts.input_schema
    required = schema.get("required", ())
    return " ".join(name if name in required else f"[{name}]" for name in schema.get("properties", ()))
