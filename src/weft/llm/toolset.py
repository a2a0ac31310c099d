"""The tools of one task: those that its template lists, and no other, whatever a model asks for."""

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Any

import jsonschema_rs
import msgspec

from weft.errors import text_of
from weft.evaluator.errors import EndsEvaluation, TaskFailed
from weft.evaluator.plain import as_text
from weft.evaluator.results import TaskFailure
from weft.evaluator.spawning import SPAWN_TOOL, Spawn
from weft.evaluator.tools import Tool, ToolContext, ToolDefinition, ToolFailed, Tools, ToolUse
from weft.limits import MAX_SHOWN_CHARACTERS
from weft.llm.payload import ToolMessage
from weft.llm.tool_names import wire_names
from weft.secrets.cutting import cut

MAX_RESULT_CHARACTERS = 100_000
"""How much of what a tool gives is sent to a model: some 25,000 tokens. The rest is cut, and that is said."""

MAX_PROBLEMS = 5
"""How many mistakes in its arguments a model is told at once."""


class BadArguments(Exception):
    """Arguments do not fit the schema of a tool; the message says how. Never leaves this room's callers."""


class Toolset:
    """Finds tools once, and calls them by the names that the model was told."""

    def __init__(
        self, tools: dict[str, Tool], *, redact: Callable[[str], str], spawn: Spawn | None = None
    ) -> None:
        self._tools = tools
        self._spawn = spawn
        self._by_name = {tool.definition.name: tool for tool in tools.values()}
        self._redact = redact

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """What the model is told, with names that providers take."""
        return tuple(
            msgspec.structs.replace(self._told(tool.definition), name=name)
            for name, tool in self._tools.items()
        )

    def _told(self, definition: ToolDefinition) -> ToolDefinition:
        """The definition; of spawning the one that knows the templates there are."""
        if self._spawn is None or definition.name != SPAWN_TOOL:
            return definition
        return self._spawn.definition()

    def find(self, name: str) -> Tool | None:
        """The tool that a model means; None: the template does not list it."""
        return self._tools.get(name) or self._by_name.get(name)

    def problem_of(self, tool: Tool, use: ToolUse) -> str | None:
        """Why the tool is not called with these arguments; None: they fit."""
        try:
            _fitting(tool, use)
        except BadArguments as error:
            return str(error)
        return None

    async def call(self, tool: Tool, use: ToolUse, context: ToolContext) -> ToolMessage:
        """What the tool gives, for the model; what goes wrong is told to it and raises nothing."""
        try:
            text = as_text(await tool.call(_fitting(tool, use), context))
        except (BadArguments, ToolFailed) as error:
            return self.error(use, str(error))
        except EndsEvaluation:
            raise
        except (Exception, SystemExit) as error:
            if tool.definition.name == SPAWN_TOOL:
                raise  # of the evaluation itself: a budget is used up, a store is gone, or we are wrong
            return self.error(use, f"the tool failed: {text_of(error)}")
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return self.error(use, "the tool has cancelled itself")  # nobody else has
        return ToolMessage(self._cut(text), use.id, use.name)

    def error(self, use: ToolUse, message: str) -> ToolMessage:
        """A message that tells the model what went wrong."""
        return ToolMessage(self._cut(message), use.id, use.name, is_error=True)

    def _cut(self, text: str) -> str:
        """The text as it can be sent: without secrets, half surrogate pairs replaced, and not too long."""
        text = text.encode("utf-8", "replace").decode()
        end = f"\n[cut here: {len(text)} characters in all]"
        return cut(text, MAX_RESULT_CHARACTERS, end, redact=self._redact)


async def find_tools(
    names: tuple[str, ...],
    tools: Tools | None,
    *,
    redact: Callable[[str], str],
    spawn: Spawn | None = None,
) -> Toolset:
    """The tools of those names; raises TaskFailed when one is not there or its server cannot be reached.

    `spawn` is that of the step.
    """
    found: dict[str, Tool] = {}
    for provider_name, name in wire_names(names).items():
        try:
            tool = None if tools is None else await tools.find(name)
        except ToolFailed as error:
            message = redact(f"tool '{name}' cannot be used: {error}")
            raise TaskFailed(TaskFailure(error.reason, message)) from None
        if tool is None:
            known = sorted(tools.names()) if tools is not None else []
            hint = f"; there are {', '.join(known)}" if known else ""
            message = f"the task lists the tool '{name}', and there is none of that name{hint}"
            raise TaskFailed(TaskFailure("configuration_error", message))
        found[provider_name] = tool
    return Toolset(found, redact=redact, spawn=spawn)


def _fitting(tool: Tool, use: ToolUse) -> dict[str, Any]:
    """The arguments, which fit the tool's schema; raises BadArguments."""
    if isinstance(use.arguments, str):
        given = cut(use.arguments, MAX_SHOWN_CHARACTERS)
        raise BadArguments(f"the arguments are no JSON object: {given}")
    check_arguments(tool.definition, use.arguments)
    return use.arguments


def check_arguments(definition: ToolDefinition, arguments: dict[str, Any]) -> None:
    """Raise BadArguments when they do not fit the tool's schema. Nothing is fetched for a `$ref`."""
    try:
        validator = jsonschema_rs.validator_for(definition.input_schema, offline=True)
    except (ValueError, TypeError) as error:
        raise BadArguments(f"the schema of the tool's arguments cannot be used: {error}") from None
    try:
        problems = list(islice(map(_problem, validator.iter_errors(arguments)), MAX_PROBLEMS))
    except (ValueError, TypeError, OverflowError, RecursionError) as error:  # nested too deeply, or no JSON
        raise BadArguments(f"the arguments cannot be checked: {text_of(error)}") from None
    if problems:
        raise BadArguments(f"the arguments do not fit: {'; '.join(problems)}")


def _problem(found: jsonschema_rs.ValidationError) -> str:
    place = "".join(f"[{part!r}]" for part in found.instance_path)
    return cut(f"{place}: {found.message}" if place else found.message, MAX_SHOWN_CHARACTERS)
