"""Subtasks at a model's edge: a session's request is handed to the evaluator, and its progress is told."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from weft.evaluator.conversion import result_json_for_model
from weft.evaluator.effects import Spawn, Step, Subtask
from weft.evaluator.errors import TaskFailed
from weft.evaluator.output_parsing import BadOutput, parse_output
from weft.evaluator.tools import ToolUse
from weft.language.traversal import SPAWN_TOOL
from weft.llm.events import OnEvent, SubtaskChanged, SubtaskRefused
from weft.llm.payload import ToolMessage


def spawning(
    step: Step, number: int, on_event: OnEvent
) -> Callable[[dict[str, Any]], Awaitable[dict[str, Any]]] | None:
    """What performs a request for a subtask in a session; None: the step may not spawn any."""
    spawn = step.spawn
    if spawn is None:
        return None

    async def perform(request: dict[str, Any]) -> dict[str, Any]:
        subtask = _begun(spawn, request, number, step.key, on_event)

        def tell(status: Literal["started", "completed", "failed", "cancelled"]) -> None:
            on_event(SubtaskChanged(step.key, subtask.key, subtask.template, subtask.depth, status))

        tell("started")
        try:
            result = await subtask.run()
        except asyncio.CancelledError:
            tell("cancelled")
            raise
        except BaseException:
            tell("failed")
            raise
        tell("completed")
        return result_json_for_model(result)

    return perform


def _begun(spawn: Spawn, request: dict[str, Any], number: int, step_key: str, on_event: OnEvent) -> Subtask:
    try:
        return spawn.begin(request, number)
    except TaskFailed as error:
        on_event(SubtaskRefused(step_key, error.error.message))
        raise


def continuation_of(text: str, key: str) -> ToolUse | None:
    """The request of an answer that says CONTINUATION, as a use of the tool; None: the answer is one.

    That is the specification's way for models that write it instead of calling the tool:
    `{"status": "CONTINUATION", "notes": {"subtask_request": {...}}}`.
    """
    if "CONTINUATION" not in text:
        return None
    try:
        said = parse_output(text, None)
    except BadOutput:
        return None
    if not isinstance(said, dict) or said.get("status") != "CONTINUATION":
        return None
    notes = said.get("notes")
    request = notes.get("subtask_request") if isinstance(notes, dict) else None
    return ToolUse(id=key, name=SPAWN_TOOL, arguments=request if isinstance(request, dict) else {})


def continuation_words(message: ToolMessage) -> str:
    """What the model is told that said CONTINUATION."""
    return outcome_words(message.content, is_error=message.is_error)


def result_words(result: dict[str, Any]) -> str:
    """The same for a result as JSON."""
    return outcome_words(msgspec.json.encode(result).decode(), is_error=False)


def outcome_words(text: str, *, is_error: bool) -> str:
    """What came of a subtask, in words for a model."""
    what = "was not done" if is_error else "is done"
    return f"The subtask {what}. What came of it:\n{text}\n\nGo on with your task."
