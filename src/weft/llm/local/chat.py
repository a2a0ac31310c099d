"""A payload as the messages of a chat, and the model's JSON as a reply.

Small models call tools poorly in forms of their own. Here every turn is one JSON object, held to a grammar: a
tool with its arguments, or the answer. Text that stays the same comes first: what has been read is kept.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from weft.evaluator.tools import ToolDefinition, ToolUse
from weft.llm.local.grammar import grammar_of
from weft.llm.payload import AssistantMessage, HandlerPayload, Message, ToolMessage, UserMessage

_MARK = re.compile(r"<\|([^|<>\s]{1,40})\|>")

_TOOLS_HEAD = """\
You can use tools. In every turn write one JSON object and nothing else:
{"tool": NAME, "arguments": {...}} to use a tool, when you need what only it can give or do;
{"answer": ANSWER} to answer yourself, when no tool is needed or when the results that you have suffice.
The tools:"""


def messages_of(payload: HandlerPayload) -> list[dict[str, str]]:
    """The messages in the form that every chat template takes: roles system, user and assistant."""
    system = "\n\n".join(part for part in (payload.system_prompt, tools_text(payload.tools)) if part)
    # An empty one too: without any, templates put in one of their own.
    found = [{"role": "system", "content": plain(system)}]
    context = payload.context
    for message in payload.messages:
        role, text = _role_and_text(message, has_tools=bool(payload.tools))
        if context and role == "user":
            text, context = f"{context}\n\n{text}", None
        found.append({"role": role, "content": plain(text)})
    if context:
        found.append({"role": "user", "content": plain(context)})
    return found


def plain(text: str) -> str:
    """The text with marks such as `<|im_end|>` broken: they would end a message and begin another's."""
    return _MARK.sub(r"<| \1 |>", text)


def tools_text(tools: Sequence[ToolDefinition]) -> str:
    """What the model is told of its tools."""
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
                return "assistant", "\n".join(_use_text(use) for use in uses)
            return "assistant", json.dumps({"answer": content}, ensure_ascii=False) if has_tools else content


def _use_text(use: ToolUse) -> str:
    return json.dumps({"tool": use.name, "arguments": use.arguments}, ensure_ascii=False)


def grammar_for(payload: HandlerPayload, *, must_use_tool: bool = False) -> str | None:
    """What the output is held to; None: free text."""
    if payload.tools:
        schema = turn_schema(payload.tools, payload.output_schema)
        if must_use_tool:
            schema["anyOf"].pop()
        return grammar_of(schema)
    return None if payload.output_schema is None else grammar_of(payload.output_schema)


def turn_schema(tools: Sequence[ToolDefinition], output_schema: dict[str, Any] | None) -> dict[str, Any]:
    """The JSON Schema of one turn: a tool with its arguments, or the answer."""
    schemas = [tool.input_schema for tool in tools]
    answer: dict[str, Any] = (
        {"type": "string", "maxLength": 1_900} if output_schema is None else output_schema
    )
    definitions = {f"s{index}": schema for index, schema in enumerate([*schemas, answer])}
    turns = [
        _closed({"tool": {"const": tool.name}, "arguments": _within(schema, f"s{index}")})
        for index, (tool, schema) in enumerate(zip(tools, schemas, strict=True))
    ]
    turns.append(_closed({"answer": _within(answer, f"s{len(schemas)}")}))
    return {"anyOf": turns, "$defs": {name: _within(schema, name) for name, schema in definitions.items()}}


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _within(schema: Any, name: str) -> Any:
    """The schema with its references pointing to where it now lies, below `$defs`."""
    match schema:
        case dict():
            return {
                key: f"#/$defs/{name}{value[1:]}"
                if key == "$ref" and isinstance(value, str) and value.startswith("#")
                else _within(value, name)
                for key, value in schema.items()
            }
        case list():
            return [_within(value, name) for value in schema]
    return schema


def read_turn(text: str, payload: HandlerPayload) -> tuple[str, tuple[ToolUse, ...]]:
    """The answer's text, or the tool that the model wants; text that was cut as it is."""
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
        # The same conversation gives the same id, as a replay needs it.
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
