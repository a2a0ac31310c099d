"""What a model is told of spawning subtasks: the templates there are, beside the request's schema."""

from typing import Any

from weft.evaluator.spawning import SPAWN_TOOL
from weft.evaluator.subtask_request import PROPERTIES, REQUEST_SCHEMA
from weft.evaluator.tools import ToolDefinition
from weft.language.library import TaskDefinition, TaskLibrary, open_inputs
from weft.secrets.cutting import cut

DESCRIPTION = (
    "Have a part of the work done by another task, and get its result. Name a template, or describe the "
    "work to have one chosen."
)

MAX_TOLD = 50
"""How many templates a model is told of by name; of more it has to describe the work."""

MAX_DESCRIPTION = 200
"""How much of a template's description it is told."""


def tool_definition(library: TaskLibrary) -> ToolDefinition:
    """The tool for a model that may spawn what is in the library."""
    templates = sorted(library, key=lambda one: one.name)
    told = templates[:MAX_TOLD]
    lines = [DESCRIPTION, "Templates:" if told else "There are no templates.", *map(_line, told)]
    if len(templates) > len(told):
        lines.append(f"- and {len(templates) - len(told)} more, by description")
    names = [one.name for one in told] if len(told) == len(templates) else []
    return ToolDefinition(name=SPAWN_TOOL, description="\n".join(lines), input_schema=_schema(names))


def _schema(names: list[str]) -> dict[str, Any]:
    """The request's schema; small models write the right name where there is a choice of names."""
    if not names:
        return REQUEST_SCHEMA
    name = {"type": "string", "enum": names, "description": PROPERTIES["name"]["description"]}
    return {**REQUEST_SCHEMA, "properties": {**PROPERTIES, "name": name}}


def _line(definition: TaskDefinition) -> str:
    parameters = [one.name if one.is_required else f"{one.name} (optional)" for one in definition.parameters]
    inputs = ", ".join([*parameters, *(f"{name} (optional)" for name in open_inputs(definition))])
    kind = definition.type if definition.subtype is None else f"{definition.type}, {definition.subtype}"
    words = " ".join((definition.metadata.get("description") or "").split())
    end = f": {cut(words, MAX_DESCRIPTION)}" if words else ""
    return f"- {definition.name} ({kind}; inputs: {inputs or 'none'}){end}"
