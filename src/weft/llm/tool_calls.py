"""Tools that a program calls by name: no model is asked."""

from typing import Any

from weft.errors import WeftError, text_of
from weft.evaluator.effects import ToolCall
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure, TaskFailureReason
from weft.evaluator.tools import ToolContext, ToolDefinition, ToolFailed, Tools
from weft.language.suggestions import nearest_tool
from weft.llm.toolset import BadArguments, check_arguments


async def call_by_name(tools: Tools, call: ToolCall, context: ToolContext) -> Any:
    """What the tool gives; raises TaskFailed when it is not there, cannot take the arguments, or fails."""
    try:
        tool = await tools.find(call.tool)
        if tool is None:
            raise ToolFailed(f"there is none{nearest_tool(call.tool, sorted(tools.names()))}")
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
    """All arguments by name: positional ones are those of the schema's properties, in order."""
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
