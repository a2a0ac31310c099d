"""The `SubtaskRequest`, and the tool definition that lets a model spawn subtasks."""

from typing import Any

import msgspec
from msgspec import Struct
from msgspec import field as struct_field

from weft.evaluator.conversion import from_python
from weft.evaluator.tools import ToolDefinition
from weft.language.fields import SETTINGS, TASK_KINDS, Field, context_conflict
from weft.language.library import TaskDefinition, TaskLibrary, open_inputs
from weft.language.schemas import CompiledSchema
from weft.language.source import NOWHERE
from weft.language.task_fields import ContextOverrides, HistorySettings
from weft.language.traversal import SPAWN_TOOL
from weft.secrets.truncation import cut

TASK_TYPES = tuple(kind.name for kind in TASK_KINDS.values())

MAX_TEXT = 2_000
"""Most characters of each text in a request: texts select a template and must not carry data."""

MAX_LISTED = 100
"""Most hints or files of one request."""


class SubtaskRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A subtask request as specified; `name` takes precedence over the other ways to select a template."""

    type: str
    inputs: dict[str, Any]
    name: str | None = None
    description: str | None = None
    subtype: str | None = None
    template_hints: tuple[str, ...] = ()
    context_management: ContextOverrides = struct_field(default_factory=ContextOverrides)
    max_depth: int | None = None
    file_paths: tuple[str, ...] = ()
    history_config: HistorySettings | None = None


class BadRequest(Exception):
    """A subtask request is invalid; `problems` lists everything that is wrong."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


_TEXT = {"type": "string", "minLength": 1, "maxLength": MAX_TEXT}


def _list_schema(description: str) -> dict[str, Any]:
    return {"type": "array", "items": _TEXT, "maxItems": MAX_LISTED, "description": description}


def _settings_schema(description: str, settings: type[Struct]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {field.name: _setting_schema(field) for field in SETTINGS[settings]},
        "additionalProperties": False,
        "description": description,
    }


def _setting_schema(field: Field) -> dict[str, Any]:
    if field.kind == "choice":
        return {"type": "string", "enum": list(field.words)}
    return {"type": "boolean"} if field.kind == "boolean" else {"type": ["integer", "null"], "minimum": 1}


PROPERTIES: dict[str, dict[str, Any]] = {
    "name": {
        **_TEXT,
        "description": "The template that does the work. Leave it out to have one chosen by the description.",
    },
    "type": {"type": "string", "enum": list(TASK_TYPES), "description": "The kind of the template."},
    "inputs": {"type": "object", "description": "The arguments of the template, by name."},
    "description": {
        **_TEXT,
        "description": "What the subtask is to do; chooses the template where no name is given.",
    },
    "subtype": {**_TEXT, "description": "The subtype of the template."},
    "template_hints": _list_schema("Words that the template should have to do with."),
    "context_management": _settings_schema(
        "Context of the subtask; by default it inherits none and fetches its own.", ContextOverrides
    ),
    "max_depth": {
        "type": "integer",
        "minimum": 1,
        "description": "How many levels of subtasks there may be, this one included.",
    },
    "file_paths": _list_schema("Files that the subtask needs; they come first in its context."),
    "history_config": _settings_schema("What the subtask sees of the conversation.", HistorySettings),
}

REQUEST_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": PROPERTIES,
    "required": ["type", "inputs"],
    "additionalProperties": False,
}

_SHAPE = CompiledSchema(REQUEST_SCHEMA)


def read_request(request: dict[str, Any]) -> SubtaskRequest:
    """Parse a request. Raise BadRequest with everything that is wrong."""
    problems = [str(one) for one in _SHAPE.violations(request)]
    if request.get("name") is None and request.get("description") is None:
        problems.append("a request needs a name or a description of the template")
    problems += _conflicts(request.get("context_management"))
    if problems:
        raise BadRequest(problems)
    try:
        if (depth := request.get("max_depth")) is not None:
            request = {**request, "max_depth": int(depth)}  # JSON Schema accepts 3.0 as an integer
        return msgspec.convert(from_python(request), SubtaskRequest)
    except (ValueError, RecursionError) as error:
        raise BadRequest([str(error)]) from None


def _conflicts(settings: Any) -> list[str]:
    """Return conflicts between the context settings, as far as they are valid on their own."""
    if not isinstance(settings, dict):
        return []
    try:
        problem = context_conflict(msgspec.convert(settings, ContextOverrides), NOWHERE)
    except msgspec.ValidationError:
        return []  # already reported
    return [] if problem is None else [f"/context_management: {problem.message}"]


DESCRIPTION = (
    "Have a part of the work done by another task, and get its result. Name a template, or describe the "
    "work to have one chosen."
)

MAX_LISTED_TEMPLATES = 50
"""Most templates that are listed for a model; it selects others by description."""

MAX_DESCRIPTION = 200
"""Most characters of a template's description that are shown to a model."""


def tool_definition(library: TaskLibrary) -> ToolDefinition:
    """Return the definition of the spawn tool, which lists the templates of the library for a model."""
    templates = sorted(library, key=lambda one: one.name)
    shown = templates[:MAX_LISTED_TEMPLATES]
    lines = [
        DESCRIPTION,
        "Templates:" if shown else "There are no templates.",
        *map(_describe_template, shown),
    ]
    if len(templates) > len(shown):
        lines.append(f"- and {len(templates) - len(shown)} more, by description")
    names = [one.name for one in shown] if len(shown) == len(templates) else []
    return ToolDefinition(name=SPAWN_TOOL, description="\n".join(lines), input_schema=_schema(names))


def _schema(names: list[str]) -> dict[str, Any]:
    """Return the schema of a request; an enumeration of template names helps small models to fill it in."""
    if not names:
        return REQUEST_SCHEMA
    name = {"type": "string", "enum": names, "description": PROPERTIES["name"]["description"]}
    return {**REQUEST_SCHEMA, "properties": {**PROPERTIES, "name": name}}


def _describe_template(definition: TaskDefinition) -> str:
    parameters = [one.name if one.is_required else f"{one.name} (optional)" for one in definition.parameters]
    inputs = ", ".join([*parameters, *(f"{name} (optional)" for name in open_inputs(definition.template))])
    kind = definition.type if definition.subtype is None else f"{definition.type}, {definition.subtype}"
    words = " ".join((definition.metadata.get("description") or "").split())
    end = f": {cut(words, MAX_DESCRIPTION)}" if words else ""
    return f"- {definition.name} ({kind}; inputs: {inputs or 'none'}){end}"
