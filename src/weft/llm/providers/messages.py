"""Converts payloads and responses between weft and pydantic-ai.

Imports pydantic-ai, which is slow, so import this module lazily.
"""

import json
from collections.abc import Sequence
from typing import Any

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
from weft.limits import clean_text
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
from weft.llm.providers.kinds import HeldOutput

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
    output = None
    if schema is not None:
        is_strict = None if held is None else held.is_strict
        output = OutputObjectDefinition(json_schema=schema, name="answer", strict=is_strict)
    return ModelRequestParameters(
        function_tools=[_function_tool(tool) for tool in payload.tools],
        output_mode="text" if schema is None else "native" if held is not None else "prompted",
        output_object=output,
        prompted_output_template=False,
        instruction_parts=[InstructionPart(content=text) for text in instructions],
    )


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
    uses = tuple(
        ToolUse(id=part.tool_call_id, name=part.tool_name, arguments=_arguments(part.args))
        for part in response.parts
        if isinstance(part, ToolCallPart)
    )
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


def _arguments(given: Any) -> dict[str, Any] | str:
    """Return the arguments of a tool call; a text if they are not a JSON object."""
    if given is None or given == "":
        return {}
    try:
        value = given if isinstance(given, dict) else json.loads(given)
    except (ValueError, RecursionError):
        return str(given)
    return value if isinstance(value, dict) else str(given)
