"""Converts a payload into chat messages, and the model's JSON into a reply.

Small models call tools unreliably in their own formats. Here every turn is one JSON object, enforced by a
grammar: a tool with its arguments, or the answer. Text that stays the same comes first, because the runtime
caches prefixes.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from weft.evaluator.tools import ToolDefinition, ToolUse
from weft.llm.local.grammar import grammar_of
from weft.llm.payload import AssistantMessage, HandlerPayload, Message, ToolMessage, UserMessage

_SPECIAL_TOKEN = re.compile(r"<\|([^|<>\s]{1,40})\|>")

_TOOLS_HEAD = """\
You can use tools. In every turn write one JSON object and nothing else:
{"tool": NAME, "arguments": {...}} to use a tool, when you need what only it can give or do;
{"answer": ANSWER} to answer yourself, when no tool is needed or when the results that you have suffice.
The tools:"""


def messages_of(payload: HandlerPayload) -> list[dict[str, str]]:
    """Convert the payload into messages that every chat template accepts: system, user and assistant."""
    system = "\n\n".join(part for part in (payload.system_prompt, tools_text(payload.tools)) if part)
    # Also an empty one: without a system message, chat templates insert their own.
    found = [{"role": "system", "content": break_special_tokens(system)}]
    context = payload.context
    for message in payload.messages:
        role, text = _role_and_text(message, has_tools=bool(payload.tools))
        if context and role == "user":
            text, context = f"{context}\n\n{text}", None
        found.append({"role": role, "content": break_special_tokens(text)})
    if context:
        found.append({"role": "user", "content": break_special_tokens(context)})
    return found


def break_special_tokens(text: str) -> str:
    """Break up special tokens such as `<|im_end|>`, which would end a message and start another one."""
    return _SPECIAL_TOKEN.sub(r"<| \1 |>", text)


def tools_text(tools: Sequence[ToolDefinition]) -> str:
    """Return the part of the system prompt that describes the tools."""
    if not tools:
        return ""
    return "\n".join([_TOOLS_HEAD, *(f"- {_tool_line(tool)}" for tool in tools)])


def _tool_line(tool: ToolDefinition) -> str:
    properties = tool.input_schema.get("properties")
    arguments = {}
    if isinstance(properties, dict):
        for name, schema in properties.items():
            about = schema.get("description") or schema.get("type") if isinstance(schema, dict) else None
            arguments[name] = about if isinstance(about, str) else "any"
    return f"{tool.name}: {tool.description} Arguments: {json.dumps(arguments, ensure_ascii=False)}"


def _role_and_text(message: Message, *, has_tools: bool) -> tuple[str, str]:
    match message:
        case UserMessage(content):
            return "user", content
        case ToolMessage(content=content, tool_name=name, is_error=is_error):
            return "user", f"{'Error' if is_error else 'Result'} of {name}:\n{content}"
        case AssistantMessage(content, uses):
            if uses:
                calls = [{"tool": use.name, "arguments": use.arguments} for use in uses]
                return "assistant", "\n".join(json.dumps(call, ensure_ascii=False) for call in calls)
            return "assistant", json.dumps({"answer": content}, ensure_ascii=False) if has_tools else content


def grammar_for(payload: HandlerPayload, *, must_use_tool: bool = False) -> str | None:
    """Return the grammar that constrains the output; None for free text."""
    if payload.tools:
        schema = turn_schema(payload.tools, payload.output_schema)
        if must_use_tool:
            schema["anyOf"].pop()  # the last alternative is the answer
        return grammar_of(schema)
    return None if payload.output_schema is None else grammar_of(payload.output_schema)


def turn_schema(tools: Sequence[ToolDefinition], output_schema: dict[str, Any] | None) -> dict[str, Any]:
    """Return the JSON Schema of one turn: a tool with its arguments, or the answer."""
    schemas = [tool.input_schema for tool in tools]
    answer: dict[str, Any] = (
        {"type": "string", "maxLength": 1_900} if output_schema is None else output_schema
    )
    definitions = {f"s{index}": schema for index, schema in enumerate([*schemas, answer])}
    turns = [
        _closed_object({"tool": {"const": tool.name}, "arguments": _rebase_refs(schema, f"s{index}")})
        for index, (tool, schema) in enumerate(zip(tools, schemas, strict=True))
    ]
    turns.append(_closed_object({"answer": _rebase_refs(answer, f"s{len(schemas)}")}))
    rebased = {name: _rebase_refs(schema, name) for name, schema in definitions.items()}
    return {"anyOf": turns, "$defs": rebased}


def _closed_object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _rebase_refs(schema: Any, name: str) -> Any:
    """Return the schema with its local references pointing below `$defs/NAME`."""
    match schema:
        case dict():
            return {
                key: f"#/$defs/{name}{value[1:]}"
                if key == "$ref" and isinstance(value, str) and value.startswith("#")
                else _rebase_refs(value, name)
                for key, value in schema.items()
            }
        case list():
            return [_rebase_refs(value, name) for value in schema]
    return schema


def read_turn(text: str, payload: HandlerPayload) -> tuple[str, tuple[ToolUse, ...]]:
    """Parse a turn into the answer's text, or the requested tool call; invalid JSON is returned as text."""
    if not payload.tools:
        return text, ()
    try:
        turn = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text, ()
    if not isinstance(turn, dict):
        return text, ()
    if isinstance(name := turn.get("tool"), str):
        arguments = turn.get("arguments")
        # Not random: replay needs the same id for the same conversation.
        use = ToolUse(
            id=f"call_{len(payload.messages)}",
            name=name,
            arguments=arguments if isinstance(arguments, dict) else json.dumps(arguments),
        )
        return "", (use,)
    answer = turn.get("answer")
    if payload.output_schema is None and isinstance(answer, str):
        return answer, ()
    return json.dumps(answer, ensure_ascii=False), ()
