"""A payload in pydantic-ai's words, and its answer in ours.

pydantic-ai is slow to import, so import this only when a model is asked.
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
from weft.llm.output_words import json_words
from weft.llm.payload import (
    AssistantMessage,
    FinishReason,
    HandlerPayload,
    ModelReply,
    ToolMessage,
    Usage,
    UserMessage,
)
from weft.llm.providers.delivery import clean_text
from weft.llm.providers.schemas import HeldOutput

_FINISH: dict[str | None, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_call": "tools",
    "content_filter": "filtered",
}


def messages_of(payload: HandlerPayload) -> list[ModelMessage]:
    """The conversation. Data stands before it, in a message of its own; its text says that it is data."""
    found: list[ModelMessage] = []
    parts: list[UserPromptPart | ToolReturnPart] = []
    if payload.context:
        parts.append(UserPromptPart(content=payload.context))
    for message in payload.messages:
        if isinstance(message, AssistantMessage):
            if parts:
                found.append(ModelRequest(parts=parts))
                parts = []
            found.append(ModelResponse(parts=_said(message)))
        else:
            parts.append(_asked(message))
    if parts:
        found.append(ModelRequest(parts=parts))
    return found


def _asked(message: UserMessage | ToolMessage) -> UserPromptPart | ToolReturnPart:
    if isinstance(message, UserMessage):
        return UserPromptPart(content=message.content)
    return ToolReturnPart(
        tool_name=message.tool_name,
        content=message.content,
        tool_call_id=message.tool_use_id,
        outcome="failed" if message.is_error else "success",
    )


def _said(message: AssistantMessage) -> Sequence[ModelResponsePart]:
    parts: list[ModelResponsePart] = [TextPart(content=message.content)] if message.content else []
    for use in message.tool_uses:
        # Servers parse the arguments of earlier turns: what was no JSON is sent as an object that holds it.
        arguments = use.arguments if isinstance(use.arguments, dict) else {"not_json": use.arguments}
        parts.append(ToolCallPart(tool_name=use.name, args=arguments, tool_call_id=use.id))
    return parts


def parameters_of(
    payload: HandlerPayload, *, held: HeldOutput | None, is_json_mode: bool, says_schema: bool
) -> ModelRequestParameters:
    """Return tools, system prompt, and how the output is held to its schema."""
    instructions = [payload.system_prompt] if payload.system_prompt else []
    if says_schema and payload.output_schema is not None:
        instructions.append(json_words(payload.output_schema if held is None else held.schema))
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
    """The settings of the request: those of the payload, else those of the model."""
    settings = ModelSettings()
    metadata = payload.metadata
    warmth = temperature if metadata.temperature is None else metadata.temperature
    longest = max_tokens if metadata.max_tokens is None else metadata.max_tokens
    if warmth is not None:
        settings["temperature"] = warmth
    if longest is not None:
        settings["max_tokens"] = longest
    return settings


def reply_of(response: ModelResponse, model: str, held: HeldOutput | None) -> ModelReply:
    """The answer, without a price; raises ValueError when it is none."""
    if not response.parts and response.finish_reason is None:
        raise ValueError("an answer without parts and without an end")
    said = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    uses = tuple(_tool_use(part) for part in response.parts if isinstance(part, ToolCallPart))
    finish = _FINISH.get(response.finish_reason, "other")
    usage = response.usage
    return ModelReply(
        text=clean_text(said if held is None or uses else held.unwrapped(said)),
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
    name = clean_text(part.tool_name)
    return ToolUse(id=clean_text(part.tool_call_id), name=name, arguments=_arguments(part.args))


def _arguments(given: Any) -> dict[str, Any] | str:
    if given is None or given == "":
        return {}
    try:
        value = _clean(given if isinstance(given, dict) else json.loads(given))
    except (ValueError, RecursionError):
        return clean_text(str(given))
    return value if isinstance(value, dict) else clean_text(str(given))


def _clean(value: Any) -> Any:
    """The value with every text in it cleaned."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(str(name)): _clean(item) for name, item in value.items()}
    return value
