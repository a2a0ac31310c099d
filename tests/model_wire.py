"""What providers put on the wire: one answer in the words of OpenAI, Anthropic and Google."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

Dialect = Literal["openai", "anthropic", "google"]


class AskedTool(NamedTuple):
    """A tool that the model asks for; arguments as text are sent as they are, JSON or not."""

    name: str
    arguments: Mapping[str, Any] | str
    id: str = "call_1"

    @property
    def text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


class Answer(NamedTuple):
    """What a model answers; a stream has one event a piece."""

    pieces: tuple[str, ...] = ("hello",)
    tools: tuple[AskedTool, ...] = ()
    input_tokens: int = 11
    output_tokens: int = 7
    cached_tokens: int = 0
    """Those of the input that the provider had in its cache."""
    finish: str = "stop"
    """In OpenAI's words: stop, length, tool_calls, content_filter."""
    model: str = "served-model"

    @property
    def text(self) -> str:
        return "".join(self.pieces)


def dialect_of(path: str) -> Dialect | None:
    if path.endswith("/chat/completions"):
        return "openai"
    if path.endswith("/messages"):
        return "anthropic"
    if ":generateContent" in path or ":streamGenerateContent" in path:
        return "google"
    return None


def is_stream(path: str, body: Any) -> bool:
    """Whether the client asks for a stream."""
    return ":streamGenerateContent" in path or bool(isinstance(body, dict) and body.get("stream"))


def whole(dialect: Dialect, answer: Answer) -> dict[str, Any]:
    return {"openai": _openai, "anthropic": _anthropic, "google": _google}[dialect](answer)


def events(dialect: Dialect, answer: Answer) -> Iterator[bytes]:
    """Yield the answer as whole events of a stream."""
    yield from {"openai": _openai_events, "anthropic": _anthropic_events, "google": _google_events}[dialect](
        answer
    )


def error_body(dialect: Dialect, status: int, message: str, code: str | None = None) -> dict[str, Any]:
    if dialect == "anthropic":
        return {"type": "error", "error": {"type": code or "api_error", "message": message}}
    if dialect == "google":
        return {"error": {"code": status, "message": message, "status": code or "UNKNOWN"}}
    return {"error": {"message": message, "type": "error", "param": None, "code": code}}


def _openai(answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.tools:
        message["tool_calls"] = [_openai_call(tool) for tool in answer.tools]
    finish = "tool_calls" if answer.tools else answer.finish
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": answer.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": _openai_usage(answer),
    }


def _openai_call(tool: AskedTool) -> dict[str, Any]:
    return {"id": tool.id, "type": "function", "function": {"name": tool.name, "arguments": tool.text}}


def _openai_usage(answer: Answer) -> dict[str, Any]:
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
    }


def _openai_events(answer: Answer) -> Iterator[bytes]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return _event({**shape, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    shape = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": answer.model,
    }
    yield chunk({"role": "assistant", "content": ""})
    for piece in answer.pieces:
        yield chunk({"content": piece})
    for index, tool in enumerate(answer.tools):
        half = len(tool.text) // 2
        call = _openai_call(tool)
        call["function"]["arguments"] = tool.text[:half]
        yield chunk({"tool_calls": [{"index": index, **call}]})
        yield chunk({"tool_calls": [{"index": index, "function": {"arguments": tool.text[half:]}}]})
    yield chunk({}, "tool_calls" if answer.tools else answer.finish)
    yield _event({**shape, "choices": [], "usage": _openai_usage(answer)})
    yield b"data: [DONE]\n\n"


_ANTHROPIC_FINISH = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


def _anthropic_finish(answer: Answer) -> str:
    return "tool_use" if answer.tools else _ANTHROPIC_FINISH[answer.finish]


def _anthropic(answer: Answer) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text else []
    content += [
        {"type": "tool_use", "id": tool.id, "name": tool.name, "input": tool.arguments}
        for tool in answer.tools
    ]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": _anthropic_finish(answer),
        "stop_sequence": None,
        "usage": {
            "input_tokens": answer.input_tokens - answer.cached_tokens,
            "cache_read_input_tokens": answer.cached_tokens,
            "output_tokens": answer.output_tokens,
        },
    }


def _anthropic_events(answer: Answer) -> Iterator[bytes]:
    empty = {**_anthropic(answer), "content": [], "stop_reason": None}
    yield _named({"type": "message_start", "message": empty})
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if answer.text:
        pieces = [{"type": "text_delta", "text": piece} for piece in answer.pieces]
        blocks.append(({"type": "text", "text": ""}, pieces))
    for tool in answer.tools:
        start = {"type": "tool_use", "id": tool.id, "name": tool.name, "input": {}}
        blocks.append((start, [{"type": "input_json_delta", "partial_json": tool.text}]))
    for index, (start, deltas) in enumerate(blocks):
        yield _named({"type": "content_block_start", "index": index, "content_block": start})
        for delta in deltas:
            yield _named({"type": "content_block_delta", "index": index, "delta": delta})
        yield _named({"type": "content_block_stop", "index": index})
    yield _named(
        {
            "type": "message_delta",
            "delta": {"stop_reason": _anthropic_finish(answer), "stop_sequence": None},
            "usage": {"output_tokens": answer.output_tokens},
        }
    )
    yield _named({"type": "message_stop"})


_GOOGLE_FINISH = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}


def _google(answer: Answer) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": answer.text}] if answer.text else []
    parts += [_google_call(tool) for tool in answer.tools]
    return {**_google_candidate(parts, _GOOGLE_FINISH[answer.finish]), **_google_rest(answer)}


def _google_call(tool: AskedTool) -> dict[str, Any]:
    return {"functionCall": {"id": tool.id, "name": tool.name, "args": tool.arguments}}


def _google_candidate(parts: list[dict[str, Any]], finish: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
    return {"candidates": [{**candidate, "finishReason": finish} if finish else candidate]}


def _google_rest(answer: Answer) -> dict[str, Any]:
    return {
        "modelVersion": answer.model,
        "responseId": "response-1",
        "usageMetadata": {
            "promptTokenCount": answer.input_tokens,
            "cachedContentTokenCount": answer.cached_tokens,
            "candidatesTokenCount": answer.output_tokens,
            "totalTokenCount": answer.input_tokens + answer.output_tokens,
        },
    }


def _google_events(answer: Answer) -> Iterator[bytes]:
    for piece in answer.pieces:
        yield _event({**_google_candidate([{"text": piece}]), "modelVersion": answer.model})
    parts = [_google_call(tool) for tool in answer.tools]
    yield _event({**_google_candidate(parts, _GOOGLE_FINISH[answer.finish]), **_google_rest(answer)})


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _named(value: dict[str, Any]) -> bytes:
    return f"event: {value['type']}\n".encode() + _event(value)
