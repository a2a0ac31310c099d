"""The OpenAI chat protocol, as far as the embedded models speak it: requests read, replies written."""

from typing import Any

import msgspec
from msgspec import Struct, field

from weft.errors import RequestError
from weft.evaluator.tools import ToolDefinition, ToolUse
from weft.llm.payload import (
    AssistantMessage,
    HandlerPayload,
    Message,
    ModelReply,
    PayloadMetadata,
    ToolMessage,
    Usage,
    UserMessage,
)


class InvalidChatRequest(RequestError):
    """A request to the embedded models' HTTP endpoint that cannot be understood."""

    code = "invalid-chat-request"


class TextPart(Struct):
    """A part of a message's content; only text is taken."""

    type: str
    text: str = ""


class CalledFunction(Struct):
    """The function of a tool call."""

    name: str
    arguments: str = "{}"


class WireToolCall(Struct):
    """A tool call of an assistant's message."""

    id: str
    function: CalledFunction


class WireMessage(Struct):
    """A message, whatever its role."""

    role: str
    content: str | list[TextPart] | None = None
    tool_calls: list[WireToolCall] | None = None
    tool_call_id: str | None = None


class WireFunction(Struct):
    """A function that the model may call."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class WireTool(Struct):
    """A tool of a request."""

    function: WireFunction
    type: str = "function"


class SchemaFormat(Struct):
    """`response_format.json_schema`."""

    schema: dict[str, Any] = field(default_factory=dict)


class ResponseFormat(Struct):
    """`response_format`."""

    type: str
    json_schema: SchemaFormat | None = None


class StreamOptions(Struct):
    """`stream_options`."""

    include_usage: bool = False


class ChatRequest(Struct):
    """`POST /v1/chat/completions`; what is not here is not looked at."""

    messages: list[WireMessage]
    model: str = ""
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    response_format: ResponseFormat | None = None
    tools: list[WireTool] | None = None
    tool_choice: Any = None
    n: int | None = None
    stop: Any = None


def read_request(body: bytes) -> ChatRequest:
    """The request; raises InvalidChatRequest."""
    try:
        request = msgspec.json.decode(body, type=ChatRequest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidChatRequest(f"the request cannot be read: {error}") from error
    if request.n not in (None, 1):
        raise InvalidChatRequest("n: one answer is given, not more")
    for name in ("max_tokens", "max_completion_tokens"):
        if (bound := getattr(request, name)) is not None and bound < 1:
            raise InvalidChatRequest(f"{name}: it is at least 1")
    if request.stop:
        raise InvalidChatRequest("stop: texts to stop at are not offered here")
    return request


def payload_of(request: ChatRequest) -> tuple[HandlerPayload, bool]:
    """The payload, and whether a tool must be used."""
    tools, must_use_tool = _tools_of(request)
    system = [_text_of(message) for message in request.messages if message.role in ("system", "developer")]
    names: dict[str, str] = {}
    messages = [
        _message_of(message, names)
        for message in request.messages
        if message.role not in ("system", "developer")
    ]
    if not messages:
        raise InvalidChatRequest("messages: there is none of a user")
    payload = HandlerPayload(
        system_prompt="\n\n".join(system),
        messages=tuple(messages),
        tools=tools,
        output_schema=_schema_of(request.response_format),
        metadata=PayloadMetadata(
            model=request.model,
            temperature=request.temperature,
            max_tokens=request.max_completion_tokens or request.max_tokens,
        ),
    )
    return payload, must_use_tool


def _tools_of(request: ChatRequest) -> tuple[tuple[ToolDefinition, ...], bool]:
    tools = tuple(
        ToolDefinition(
            name=tool.function.name,
            description=tool.function.description or "",
            input_schema=tool.function.parameters or {"type": "object", "properties": {}},
        )
        for tool in request.tools or ()
    )
    match request.tool_choice:
        case None | "auto":
            return tools, False
        case "none":
            return (), False
        case "required" if tools:
            return tools, True
        case {"function": {"name": str() as name}}:
            chosen = tuple(tool for tool in tools if tool.name == name)
            if chosen:
                return chosen, True
    raise InvalidChatRequest("tool_choice: it names no tool of the request")


def _schema_of(wanted: ResponseFormat | None) -> dict[str, Any] | None:
    match wanted:
        case None | ResponseFormat(type="text"):
            return None
        case ResponseFormat(type="json_object"):
            return {"type": "object"}
        case ResponseFormat(type="json_schema", json_schema=SchemaFormat(schema=schema)):
            return schema
    raise InvalidChatRequest("response_format: it can be text, json_object, or json_schema with a schema")


def _text_of(message: WireMessage) -> str:
    content = message.content
    if isinstance(content, list):
        if any(part.type not in ("text", "refusal") for part in content):
            raise InvalidChatRequest("messages: the embedded models read text only")
        return "".join(part.text for part in content)
    return content or ""


def _message_of(message: WireMessage, names: dict[str, str]) -> Message:
    """The message; `names` keeps which tool a call was of."""
    text = _text_of(message)
    match message.role:
        case "user":
            return UserMessage(text)
        case "assistant":
            uses = []
            for call in message.tool_calls or ():
                names[call.id] = call.function.name
                uses.append(ToolUse(id=call.id, name=call.function.name, arguments=_arguments(call)))
            return AssistantMessage(text, tuple(uses))
        case "tool":
            call_id = message.tool_call_id or ""
            return ToolMessage(content=text, tool_use_id=call_id, tool_name=names.get(call_id, "the tool"))
    raise InvalidChatRequest(f"messages: there is no role '{message.role[:40]}'")


def _arguments(call: WireToolCall) -> dict[str, Any] | str:
    try:
        found = msgspec.json.decode(call.function.arguments)
    except msgspec.DecodeError:
        return call.function.arguments
    return found if isinstance(found, dict) else call.function.arguments


def completion(reply: ModelReply, *, id: str, created: int, model: str) -> dict[str, Any]:  # noqa: A002
    """The answer in one piece."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.tool_uses:
        message["tool_calls"] = tool_calls(reply.tool_uses)
    else:
        message["content"] = reply.text
    choice = {"index": 0, "message": message, "finish_reason": finish_reason(reply), "logprobs": None}
    return {
        "id": id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [choice],
        "usage": usage(reply.usage),
    }


def tool_calls(uses: tuple[ToolUse, ...]) -> list[dict[str, Any]]:
    """The tools that the model wants."""
    return [
        {
            "id": use.id,
            "type": "function",
            "function": {
                "name": use.name,
                "arguments": use.arguments
                if isinstance(use.arguments, str)
                else msgspec.json.encode(use.arguments).decode(),
            },
        }
        for use in uses
    ]


def finish_reason(reply: ModelReply) -> str:
    """Why the answer ended, in the protocol's words."""
    return {"tools": "tool_calls", "length": "length", "filtered": "content_filter"}.get(
        reply.finish_reason, "stop"
    )


def usage(used: Usage) -> dict[str, Any]:
    """What it took."""
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.tokens,
        "prompt_tokens_details": {"cached_tokens": used.cache_read_tokens},
    }
