"""The conversation that tasks with `history` share: who sees what of it, and how composites hand it on."""

import msgspec

from weft.evaluator.branches import current_branch
from weft.evaluator.effects import Turn
from weft.evaluator.results import TaskResult
from weft.language.task_fields import HistorySettings

RECORDED = "recorded_turns"
"""The note of a composite that holds what was recorded inside it: whoever knows its result already, and does
not run it again, has that too."""


def seen(history: HistorySettings | None) -> tuple[Turn, ...]:
    """What a task with these settings sees of the conversation of the running branch."""
    if history is None or not history.use_session_history:
        return ()
    turns = current_branch().conversation
    last = history.history_turns_to_include
    return turns if last is None else turns[max(0, len(turns) - last) :]


def record(history: HistorySettings | None, prompt: str, result: TaskResult) -> None:
    """Add an exchange, if the task is to be recorded."""
    if history is not None and history.record_in_session_history:
        at = result.notes.get("answered_at")
        turn = Turn(prompt, result.content, at if isinstance(at, str) else None)
        current_branch().conversation += (turn,)


def with_recorded(result: TaskResult, before: tuple[Turn, ...]) -> TaskResult:
    """The result of a composite, with what the running branch has recorded since `before`."""
    own = current_branch().conversation[len(before) :]
    return result.with_notes(**{RECORDED: msgspec.to_builtins(own)}) if own else _without(result)


def take_recorded(result: TaskResult) -> TaskResult:
    """The result of a composite without that note; what it holds is added to the running branch."""
    told = result.notes.get(RECORDED)
    if told is not None:
        current_branch().conversation += msgspec.convert(told, tuple[Turn, ...])
    return _without(result)


def _without(result: TaskResult) -> TaskResult:
    if RECORDED not in result.notes:
        return result
    notes = {name: note for name, note in result.notes.items() if name != RECORDED}
    return msgspec.structs.replace(result, notes=notes)
