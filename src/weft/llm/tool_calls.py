"""Tool calls of models and programs: names on the wire, argument checks, calls and results."""

import asyncio
import re
from collections.abc import Iterable, Iterator
from itertools import count, islice
from math import isfinite
from typing import Any

import jsonschema_rs
import msgspec

from weft.errors import WeftError, text_of
from weft.evaluator.conversion import as_text
from weft.evaluator.effects import Spawn, ToolCall
from weft.evaluator.errors import EvaluationAborted, TaskFailed
from weft.evaluator.results import TaskFailure, TaskFailureReason
from weft.evaluator.tools import Tool, ToolContext, ToolDefinition, ToolFailed, Tools, ToolUse
from weft.language.diagnostics import nearest_tool
from weft.language.traversal import SPAWN_TOOL
from weft.limits import MAX_INTEGER_BITS, MAX_JSON_DEPTH, MAX_SHOWN_CHARACTERS, clean_text
from weft.llm.payload import ModelReply, ToolMessage
from weft.secrets.registry import redact
from weft.secrets.truncation import cut

MAX_CHARACTERS = 64
"""Longest tool name that providers accept."""

_INVALID_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


def wire_names(names: Iterable[str]) -> dict[str, str]:
    """Map names that providers accept to tool names: `system_read_files` to `system:read_files`.

    If two tools would get the same wire name, the second gets a number.
    """
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        base = _INVALID_IN_NAMES.sub("_", name)[:MAX_CHARACTERS] or "_"
        chosen, number = base, 1
        while chosen in found:
            number += 1
            chosen = f"{base[: MAX_CHARACTERS - len(f'_{number}')]}_{number}"
        found[chosen] = name
    return found


MAX_RESULT_CHARACTERS = 100_000
"""Longest tool result that is sent to a model, about 25,000 tokens. A longer one is truncated with a note."""

MAX_PROBLEMS = 5
"""Number of argument errors that are reported to a model at once."""


class BadArguments(Exception):
    """The arguments do not match the schema of a tool. Converted into a ToolMessage or a TaskFailed."""


class Toolset:
    """The tools of one task, by wire name. `spawn` defines the spawn tool; None if it is not allowed."""

    def __init__(self, tools: dict[str, Tool], spawn: Spawn | None = None) -> None:
        self._tools = tools
        self._spawn = spawn
        self._by_name = {tool.definition.name: tool for tool in tools.values()}

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the definitions to send to the model, with names that providers accept."""
        current = {tool.definition.name: tool.definition for tool in self._tools.values()}
        if self._spawn is not None and SPAWN_TOOL in current:
            current[SPAWN_TOOL] = self._spawn.definition()  # lists the available templates
        return tuple(
            msgspec.structs.replace(current[tool.definition.name], name=name)
            for name, tool in self._tools.items()
        )

    def find(self, name: str) -> Tool | None:
        """Find a tool by its wire name or its own name; None if the template does not list it."""
        return self._tools.get(name) or self._by_name.get(name)

    def argument_problem(self, tool: Tool, use: ToolUse) -> str | None:
        """Return why the arguments do not match the tool's schema; None if they match."""
        try:
            _valid_arguments(tool, use)
        except BadArguments as error:
            return str(error)
        return None

    async def call(self, tool: Tool, use: ToolUse, context: ToolContext) -> ToolMessage:
        """Call the tool and return the message for the model: the result, or the error if the tool fails."""
        try:
            text = as_text(await tool.call(_valid_arguments(tool, use), context))
        except (BadArguments, ToolFailed) as error:
            return self.error(use, str(error))
        except EvaluationAborted:
            raise
        except (Exception, SystemExit) as error:
            if tool.definition.name == SPAWN_TOOL:
                raise  # not of the tool, but of the evaluation: budget exceeded, store unavailable, or a bug
            return self.error(use, f"the tool failed: {text_of(error)}")
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return self.error(use, "the tool has cancelled itself")  # our own task was not cancelled
        return ToolMessage(self._truncate(text), use.id, use.name)

    def error(self, use: ToolUse, message: str) -> ToolMessage:
        return ToolMessage(self._truncate(message), use.id, use.name, is_error=True)

    def _truncate(self, text: str) -> str:
        """Redact secrets, clean and truncate the text."""
        text = clean_text(text)
        end = f"\n[cut here: {len(text)} characters in all]"
        return cut(text, MAX_RESULT_CHARACTERS, end)


async def find_tools(names: tuple[str, ...], tools: Tools | None, *, spawn: Spawn | None = None) -> Toolset:
    """Find tools by name; raise TaskFailed if one is unknown or its server cannot be reached."""
    found: dict[str, Tool] = {}
    for provider_name, name in wire_names(names).items():
        try:
            tool = None if tools is None else await tools.find(name)
        except ToolFailed as error:
            message = redact(f"tool '{name}' cannot be used: {error}")
            raise TaskFailed(TaskFailure(error.reason, message)) from None
        if tool is None:
            known = sorted(tools.names()) if tools is not None else []
            hint = f"; known tools: {', '.join(known)}" if known else ""
            message = f"the task lists the tool '{name}', which does not exist{hint}"
            raise TaskFailed(TaskFailure("configuration_error", message))
        found[provider_name] = tool
    return Toolset(found, spawn)


def _valid_arguments(tool: Tool, use: ToolUse) -> dict[str, Any]:
    """Return the arguments; raise BadArguments if they do not match the tool's schema."""
    if isinstance(use.arguments, str):
        given = cut(use.arguments, MAX_SHOWN_CHARACTERS)
        raise BadArguments(f"the arguments are no JSON object: {given}")
    check_arguments(tool.definition, use.arguments)
    return use.arguments


def check_arguments(definition: ToolDefinition, arguments: dict[str, Any]) -> None:
    """Raise BadArguments if the arguments do not match the tool's schema. A remote `$ref` is not fetched."""
    try:
        validator = jsonschema_rs.validator_for(definition.input_schema, offline=True)
    except (ValueError, TypeError) as error:
        raise BadArguments(f"the schema of the tool's arguments cannot be used: {error}") from None
    try:
        problems = list(islice(map(_format_problem, validator.iter_errors(arguments)), MAX_PROBLEMS))
    except (ValueError, TypeError, OverflowError, RecursionError) as error:  # nested too deeply, or not JSON
        raise BadArguments(f"the arguments cannot be checked: {text_of(error)}") from None
    if problems:
        raise BadArguments(f"the arguments do not fit: {'; '.join(problems)}")


def _format_problem(found: jsonschema_rs.ValidationError) -> str:
    path = "".join(f"[{part!r}]" for part in found.instance_path)
    return cut(f"{path}: {found.message}" if path else found.message, MAX_SHOWN_CHARACTERS)


async def call_by_name(tools: Tools, call: ToolCall, context: ToolContext) -> Any:
    """Call a tool for a program and return its result.

    Raise TaskFailed if the tool is unknown, its arguments do not match, or it fails.
    """
    try:
        tool = await tools.find(call.tool)
        if tool is None:
            raise ToolFailed(f"no such tool{nearest_tool(call.tool, sorted(tools.names()))}")
        arguments = named_arguments(tool.definition, call)
        check_arguments(tool.definition, arguments)
        return await tool.call(arguments, context)
    except (ToolFailed, BadArguments) as error:
        reason = error.reason if isinstance(error, ToolFailed) else ToolFailed.reason
        raise _failed(call, str(error), reason) from error
    except WeftError:
        raise
    except (Exception, SystemExit) as error:
        raise _failed(call, text_of(error)) from error


def named_arguments(definition: ToolDefinition, call: ToolCall) -> dict[str, Any]:
    """Return all arguments by name; positional ones follow the order of the schema's properties."""
    properties = definition.input_schema.get("properties")
    names = list(properties) if isinstance(properties, dict) else []
    if len(call.positional) > len(names):
        raise BadArguments(f"it takes {len(names)} arguments; {len(call.positional)} were given")
    arguments = dict(zip(names, call.positional, strict=False))
    twice = sorted(arguments.keys() & call.arguments.keys())
    if twice:
        raise BadArguments(f"'{twice[0]}' was given twice")
    return {**arguments, **call.arguments}


def _failed(call: ToolCall, message: str, reason: TaskFailureReason = ToolFailed.reason) -> TaskFailed:
    return TaskFailed(TaskFailure(reason, f"tool '{call.tool}': {message}"))


MAX_PARTS = 200_000
"""Most values, nested ones included, in the arguments of one call: far more than a model writes."""


def sound_reply(reply: ModelReply) -> ModelReply:
    """Make the tool calls of a reply valid Unicode and JSON; bad arguments become a text with the reason."""
    if not reply.tool_uses:
        return reply
    uses = [
        ToolUse(id=clean_text(use.id), name=clean_text(use.name), arguments=_clean_arguments(use))
        for use in reply.tool_uses
    ]
    return msgspec.structs.replace(reply, tool_uses=tuple(uses))


def _clean_arguments(use: ToolUse) -> dict[str, Any] | str:
    try:
        cleaned: dict[str, Any] | str = _sanitize(use.arguments, MAX_JSON_DEPTH, count(1))
    except ValueError as error:
        return f"left out, because {error}"
    return cleaned


def _sanitize(value: Any, levels: int, numbers: Iterator[int]) -> Any:
    """Return the value with valid Unicode; raise ValueError if it is too large or not JSON.

    `numbers` counts its parts: a cyclic list never ends.
    """
    if next(numbers) > MAX_PARTS:
        raise ValueError(f"they have more than {MAX_PARTS} parts")
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list | tuple | dict):
        if levels == 0:
            raise ValueError(f"they are nested deeper than {MAX_JSON_DEPTH} levels")
        if isinstance(value, dict):
            return {clean_text(str(key)): _sanitize(item, levels - 1, numbers) for key, item in value.items()}
        return [_sanitize(item, levels - 1, numbers) for item in value]
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{value} is no number of JSON")
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        raise ValueError(f"a whole number in them has more than {MAX_INTEGER_BITS} bits")
    if value is not None and not isinstance(value, bool | int | float):
        raise ValueError(f"a Python {type(value).__name__} is no JSON")
    return value
