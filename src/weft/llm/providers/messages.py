"""Converts payloads, schemas and responses between weft and pydantic-ai.

Imports pydantic-ai, which is slow, so import this module lazily.
"""

import graphlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition as FunctionTool

from weft.evaluator.tools import ToolDefinition, ToolUse
from weft.llm.payload import (
    AssistantMessage,
    FinishReason,
    HandlerPayload,
    ModelReply,
    ToolMessage,
    Usage,
    UserMessage,
)
from weft.llm.prompt import json_instructions
from weft.llm.providers.access import Kind
from weft.text import clean_text

_WRAPPER_PROPERTY = "value"
"""The property of the object around a wrapped schema."""

_RESTRICTING = frozenset({"type", "enum", "const", "anyOf", "$ref"})
"""Keywords that restrict the values of a schema; a schema without any of them allows JSON of any shape."""
_ANNOTATIONS = frozenset({"$schema", "$defs", "definitions", "title", "description"})
_BASIC = _RESTRICTING | _ANNOTATIONS | {"properties", "required", "additionalProperties", "items"}
_BOUNDS = frozenset({"minimum", "maximum", "minItems", "maxItems"})
_ENFORCED: dict[Kind, frozenset[str]] = {
    "openai": _BASIC | _BOUNDS | {"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern"},
    "anthropic": _BASIC,
    "google": _BASIC | _BOUNDS | {"prefixItems", "oneOf"},
}
"""The keywords that each kind of provider enforces; its client or server drops, ignores or rejects others."""
_DESCRIBED = _BOUNDS | {"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern", "format", "default"}
"""Keywords that Anthropic's client moves into descriptions; it rejects other keywords outside `_BASIC`."""


class HeldOutput(Struct, frozen=True):
    """An output schema for a provider. Providers accept only object schemas; others are wrapped in one."""

    schema: dict[str, Any]
    is_wrapped: bool = False
    is_enforced: bool = True
    """Whether the provider enforces the whole schema. If not, the prompt must state the schema."""
    is_strict: bool | None = None
    """False if the client must not adapt the schema to OpenAI's strict mode, which closes open objects."""

    def unwrap(self, text: str) -> str:
        """Return the wrapped value as JSON; text of another form is returned unchanged."""
        if not self.is_wrapped:
            return text
        try:
            value = json.loads(text)
        except ValueError:
            return text
        if not isinstance(value, dict) or list(value) != [_WRAPPER_PROPERTY]:
            return text
        return json.dumps(value[_WRAPPER_PROPERTY], ensure_ascii=False)


def held_output(schema: dict[str, Any], kind: Kind) -> HeldOutput | None:
    """Return the schema for providers of this kind; None if it is empty or its meaning would change."""
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
        return None  # wrapping the schema would break this reference
    inner = dict(schema)
    outer: dict[str, Any] = {
        name: inner.pop(name) for name in ("$schema", "$defs", "definitions") if name in inner
    }
    outer |= {
        "type": "object",
        "properties": {_WRAPPER_PROPERTY: inner},
        "required": [_WRAPPER_PROPERTY],
        "additionalProperties": False,
    }
    return HeldOutput(outer, is_wrapped=True, is_enforced=is_enforced, is_strict=is_strict)


def _is_enforced(part: dict[str, Any], kind: Kind) -> bool:
    """Return True if the provider enforces this part of a schema; nested schemas are checked separately."""
    if part.keys() - _ENFORCED[kind] or ("const" in part and part["const"] is None and kind == "google"):
        return False
    if "$ref" in part and (not _is_definition(part["$ref"]) or _loses_keywords(part, kind)):
        return False
    if kind != "openai":
        return True
    # Strict mode accepts no optional properties, no additional properties and no JSON of any shape.
    is_complete = set(part.get("properties", ())) == set(part.get("required", ()))
    is_typed = bool(part.keys() & _RESTRICTING) and ("array" not in _types(part) or bool(part.get("items")))
    return _is_closed(part) and is_complete and is_typed


def _keeps_meaning(schema: dict[str, Any], parts: Sequence[dict[str, Any]], kind: Kind) -> bool:
    """Return True if the provider's client passes the schema on with its meaning.

    Google returns `{}` for an object without named properties. Anthropic's client closes every object and
    fails for type lists, parts of any shape and recursive definitions; it moves `definitions` into a
    description, which breaks references to them.
    """
    if kind == "google":
        return all("properties" in part or "object" not in _types(part) for part in parts)
    return kind == "openai" or (not _is_recursive(schema) and all(map(_fits_anthropic, parts)))


def _fits_anthropic(part: dict[str, Any]) -> bool:
    is_known = bool(part.keys() & _RESTRICTING) and not part.keys() - _BASIC - _DESCRIBED
    is_found = "definitions" not in part and _is_definition(part.get("$ref", "#/$defs/"))
    return is_known and is_found and _is_closed(part) and not isinstance(part.get("type"), list)


def _is_closed(part: dict[str, Any]) -> bool:
    """Return True if the part does not allow objects with properties that it does not name."""
    if "object" not in _types(part) and not part.keys() & {"properties", "additionalProperties"}:
        return True
    return "properties" in part and part.get("additionalProperties") is False


def _types(part: dict[str, Any]) -> list[Any]:
    named = part.get("type")
    return named if isinstance(named, list) else [named]


def _is_definition(reference: Any) -> bool:
    """Return True if a reference points to a definition or the root; the clients follow no others."""
    return reference == "#" or str(reference).startswith(("#/$defs/", "#/definitions/"))


def _loses_keywords(part: dict[str, Any], kind: Kind) -> bool:
    """Return True if keywords beside a reference do not reach the provider.

    Anthropic's client drops all of them; others keep titles and descriptions, but no further conditions.
    """
    beside = part.keys() - {"$ref", "$schema", "$defs", "definitions"}
    return bool(beside) if kind == "anthropic" else bool(beside & _BASIC - _ANNOTATIONS)


def _is_recursive(schema: dict[str, Any]) -> bool:
    """Return True if a definition refers to itself, directly or through others."""
    references = {
        f"#/{section}/{name}": {part["$ref"] for part in _parts(definition) if "$ref" in part}
        for section in ("$defs", "definitions")
        for name, definition in schema.get(section, {}).items()
    }
    references["#"] = {part["$ref"] for part in _parts(schema) if part.get("$ref") == "#"}
    try:
        graphlib.TopologicalSorter(references).prepare()
    except graphlib.CycleError:
        return True
    return False


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the schema and all its nested schemas; property names and constants are not schemas."""
    stack = [schema]
    while stack:
        part = stack.pop()
        if isinstance(part, list):
            stack.extend(part)
        elif isinstance(part, dict):
            yield part
            for name, value in part.items():
                if name in ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"):
                    stack.extend(map(_as_object_schema, value.values() if isinstance(value, dict) else ()))
                elif name in ("items", "prefixItems", "anyOf", "oneOf", "allOf", "not", "contains"):
                    stack.extend(map(_as_object_schema, value if isinstance(value, list) else [value]))
                elif name not in ("enum", "const", "default", "examples", "required"):
                    stack.append(value)


def _as_object_schema(schema: Any) -> Any:
    """Return a boolean schema as an object: `{}` for true, one that no value matches for false."""
    if isinstance(schema, bool):
        return {} if schema else {"not": {"type": ["null", "boolean", "number", "string", "array", "object"]}}
    return schema


_FINISH_REASONS: dict[str | None, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_call": "tools",
    "content_filter": "filtered",
}


def messages_of(payload: HandlerPayload) -> list[ModelMessage]:
    """Convert the messages. The task's data becomes a separate part before them."""
    found: list[ModelMessage] = []
    parts: list[UserPromptPart | ToolReturnPart] = []
    if payload.context:
        parts.append(UserPromptPart(content=payload.context))
    for message in payload.messages:
        if isinstance(message, AssistantMessage):
            if parts:
                found.append(ModelRequest(parts=parts))
                parts = []
            found.append(ModelResponse(parts=_response_parts(message)))
        else:
            parts.append(_request_part(message))
    if parts:
        found.append(ModelRequest(parts=parts))
    return found


def _request_part(message: UserMessage | ToolMessage) -> UserPromptPart | ToolReturnPart:
    if isinstance(message, UserMessage):
        return UserPromptPart(content=message.content)
    return ToolReturnPart(
        tool_name=message.tool_name,
        content=message.content,
        tool_call_id=message.tool_use_id,
        outcome="failed" if message.is_error else "success",
    )


def _response_parts(message: AssistantMessage) -> Sequence[ModelResponsePart]:
    parts: list[ModelResponsePart] = [TextPart(content=message.content)] if message.content else []
    for use in message.tool_uses:
        # Servers parse the arguments of earlier turns, so invalid JSON is wrapped in an object.
        arguments = use.arguments if isinstance(use.arguments, dict) else {"not_json": use.arguments}
        parts.append(ToolCallPart(tool_name=use.name, args=arguments, tool_call_id=use.id))
    return parts


def parameters_of(
    payload: HandlerPayload, *, held: HeldOutput | None, is_json_mode: bool, says_schema: bool
) -> ModelRequestParameters:
    """Return tools, system prompt and output mode in pydantic-ai's form.

    `says_schema` adds the output schema to the system prompt, because the provider does not enforce it fully.
    """
    instructions = [payload.system_prompt] if payload.system_prompt else []
    if says_schema and payload.output_schema is not None:
        instructions.append(json_instructions(payload.output_schema if held is None else held.schema))
    schema = held.schema if held is not None else payload.output_schema if is_json_mode else None
    return ModelRequestParameters(
        function_tools=[_function_tool(tool) for tool in payload.tools],
        output_mode="text" if schema is None else "native" if held is not None else "prompted",
        output_object=None if schema is None else _output_object(schema, held),
        prompted_output_template=False,
        instruction_parts=[InstructionPart(content=text) for text in instructions],
    )


def _output_object(schema: dict[str, Any], held: HeldOutput | None) -> OutputObjectDefinition:
    is_strict = None if held is None else held.is_strict
    return OutputObjectDefinition(json_schema=schema, name="answer", strict=is_strict)


def _function_tool(tool: ToolDefinition) -> FunctionTool:
    return FunctionTool(
        name=tool.name, description=tool.description, parameters_json_schema=tool.input_schema, strict=False
    )


def settings_of(payload: HandlerPayload, temperature: float | None, max_tokens: int | None) -> ModelSettings:
    """Return the request settings of the payload, with the model's settings as defaults."""
    settings = ModelSettings()
    metadata = payload.metadata
    temperature = temperature if metadata.temperature is None else metadata.temperature
    max_tokens = max_tokens if metadata.max_tokens is None else metadata.max_tokens
    if temperature is not None:
        settings["temperature"] = temperature
    if max_tokens is not None:
        settings["max_tokens"] = max_tokens
    return settings


def parse_response(response: ModelResponse, model: str, held: HeldOutput | None) -> ModelReply:
    """Convert a response, without its cost; raise ValueError if it has neither parts nor a finish reason."""
    if not response.parts and response.finish_reason is None:
        raise ValueError("a response without parts and without a finish reason")
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    uses = tuple(_tool_use(part) for part in response.parts if isinstance(part, ToolCallPart))
    finish = _FINISH_REASONS.get(response.finish_reason, "other")
    usage = response.usage
    return ModelReply(
        text=clean_text(text if held is None or uses else held.unwrap(text)),
        tool_uses=uses,
        usage=Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
        ),
        finish_reason="tools" if uses and finish in ("stop", "other") else finish,
        model=model,
        response_model=None if response.model_name is None else clean_text(response.model_name),
    )


def _tool_use(part: ToolCallPart) -> ToolUse:
    return ToolUse(id=part.tool_call_id, name=part.tool_name, arguments=_arguments(part.args))


def _arguments(given: Any) -> dict[str, Any] | str:
    """Return the arguments of a tool call; a text if they are not a JSON object."""
    if given is None or given == "":
        return {}
    try:
        value = given if isinstance(given, dict) else json.loads(given)
    except (ValueError, RecursionError):
        return str(given)
    return value if isinstance(value, dict) else str(given)
