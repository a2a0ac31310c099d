"""Passes the subtasks that a model requests to the evaluator, and emits events about their progress."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from weft.evaluator.conversion import result_json_for_model
from weft.evaluator.effects import Step
from weft.evaluator.errors import TaskFailed
from weft.evaluator.output_parsing import BadOutput, parse_output
from weft.evaluator.tools import ToolUse
from weft.language.traversal import SPAWN_TOOL
from weft.llm.events import OnEvent, SubtaskChanged, SubtaskRefused
from weft.llm.payload import ToolMessage


def make_spawner(
    step: Step, key: str, on_event: OnEvent
) -> Callable[[dict[str, Any]], Awaitable[dict[str, Any]]] | None:
    """Return a function that runs a requested subtask; None if the step may not spawn subtasks.

    The number at the end of `key`, that of the tool call, identifies the request within the step.
    """
    spawn = step.spawn
    if spawn is None:
        return None

    async def perform(request: dict[str, Any]) -> dict[str, Any]:
        try:
            subtask = spawn.begin(request, int(key.rpartition("#")[2]))
        except TaskFailed as error:
            on_event(SubtaskRefused(step.key, error.error.message))
            raise

        def emit(status: Literal["started", "completed", "failed", "cancelled"]) -> None:
            on_event(SubtaskChanged(step.key, subtask.key, subtask.template, subtask.depth, status))

        emit("started")
        try:
            result = await subtask.run()
        except asyncio.CancelledError:
            emit("cancelled")
            raise
        except BaseException:
            emit("failed")
            raise
        emit("completed")
        return result_json_for_model(result)

    return perform


def parse_continuation(text: str, key: str) -> ToolUse | None:
    """Parse a CONTINUATION response into a call of the spawn tool; None if the text is an ordinary response.

    The specification lets models without tool calls write
    `{"status": "CONTINUATION", "notes": {"subtask_request": {...}}}`. `key` becomes the id of the call.
    """
    if "CONTINUATION" not in text:
        return None
    try:
        parsed = parse_output(text, None)
    except BadOutput:
        return None
    if not isinstance(parsed, dict) or parsed.get("status") != "CONTINUATION":
        return None
    notes = parsed.get("notes")
    request = notes.get("subtask_request") if isinstance(notes, dict) else None
    return ToolUse(id=key, name=SPAWN_TOOL, arguments=request if isinstance(request, dict) else {})


def format_tool_message(message: ToolMessage) -> str:
    """Format the outcome of a subtask that a CONTINUATION response requested as a user message."""
    return _format_outcome(message.content, is_error=message.is_error)


def format_result(result: dict[str, Any]) -> str:
    """Format a recorded subtask result as a user message."""
    return _format_outcome(msgspec.json.encode(result).decode(), is_error=False)


def _format_outcome(text: str, *, is_error: bool) -> str:
    what = "was not done" if is_error else "is done"
    return f"The subtask {what}. What came of it:\n{text}\n\nGo on with your task."
