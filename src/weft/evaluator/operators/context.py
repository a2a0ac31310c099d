"""What a running task inherits: its context, the outputs of earlier steps, and the conversation."""

import json
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import msgspec
from msgspec import Struct

from weft.evaluator.branches import current_branch
from weft.evaluator.conversion import result_json, strip_bookkeeping
from weft.evaluator.effects import Turn
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import ResourceExhaustion, TaskResult
from weft.evaluator.subtasks.chain import Chain
from weft.language.source import NOWHERE, Span
from weft.language.task_fields import ContextManagement, HistorySettings
from weft.limits import MAX_SHOWN_CHARACTERS, MAX_TASK_DEPTH
from weft.secrets.truncation import cut

RECORDED_TURNS = "recorded_turns"
"""The note of a composite that holds the turns recorded inside it, so that a replayed result has them too."""


def visible_turns(history: HistorySettings | None) -> tuple[Turn, ...]:
    """Return the turns of the running branch's conversation that a task with these settings sees."""
    if history is None or not history.use_session_history:
        return ()
    turns = current_branch().conversation
    count = history.history_turns_to_include
    return turns if count is None else turns[max(0, len(turns) - count) :]


def record_turn(history: HistorySettings | None, prompt: str, result: TaskResult) -> None:
    """Add a turn to the conversation of the running branch, if the settings say so."""
    if history is not None and history.record_in_session_history:
        at = result.notes.get("answered_at")
        turn = Turn(prompt, result.content, at if isinstance(at, str) else None)
        current_branch().conversation += (turn,)


def with_recorded_turns(result: TaskResult, before: tuple[Turn, ...]) -> TaskResult:
    """Return a composite's result with a note of the turns that its branch added to the turns `before`."""
    own = current_branch().conversation[len(before) :]
    return result.with_notes(**{RECORDED_TURNS: msgspec.to_builtins(own)}) if own else _without_turns(result)


def restore_recorded_turns(result: TaskResult) -> TaskResult:
    """Add the turns in a composite's note to the running branch; return the result without the note."""
    turns = result.notes.get(RECORDED_TURNS)
    if turns is not None:
        current_branch().conversation += msgspec.convert(turns, tuple[Turn, ...])
    return _without_turns(result)


def _without_turns(result: TaskResult) -> TaskResult:
    if RECORDED_TURNS not in result.notes:
        return result
    notes = {name: note for name, note in result.notes.items() if name != RECORDED_TURNS}
    return msgspec.structs.replace(result, notes=notes)


class SequentialHistory:
    """The outputs of earlier steps, and the text about them that later steps see.

    The outputs stay in the evaluator; only what `text` returns is sent to a model.
    """

    def __init__(self, settings: ContextManagement) -> None:
        self.results: list[TaskResult] = []
        self._titles: list[str] = []
        self._settings = settings
        self._summaries: list[str] = []
        """The text about each step; empty if the settings do not accumulate outputs."""

    def add(self, title: str, result: TaskResult) -> None:
        """Add the result of a finished step."""
        self.results.append(result)
        self._titles.append(title)
        if not self._settings.accumulate_data:
            return
        number = len(self.results)
        if self._settings.accumulation_format == "full_output":
            self._summaries.append(f"[{number}] {title}\n{result.content}")
        else:
            self._summaries.append(f"{number}. {title}: {result.status}{_shown_notes(result)}")

    def text(self) -> str | None:
        """Return the `previous_outputs` of the next step, or None if nothing is accumulated."""
        between = "\n\n" if self._settings.accumulation_format == "full_output" else "\n"
        return between.join(self._summaries) or None

    def notes(self) -> list[dict[str, Any]]:
        """Return one short entry per step, for the notes of the composite."""
        return [
            {"step": index, "title": title, "status": result.status}
            for index, (title, result) in enumerate(zip(self._titles, self.results, strict=True))
        ]

    def partial_results(self) -> list[dict[str, Any]]:
        """Return the results so far as JSON, for the details of a failure."""
        return partial_results(dict(enumerate(self.results)))


def partial_results(results: Mapping[int, TaskResult]) -> list[dict[str, Any]]:
    """Return results as JSON, each with its step number; of concurrent steps some may be missing."""
    return [{"step": step, **result_json(results[step])} for step in sorted(results)]


def _shown_notes(result: TaskResult) -> str:
    """Return the shortened notes of a result after a space; "" without notes."""
    kept = strip_bookkeeping(result.notes)
    if not kept:
        return ""
    notes = json.dumps(kept, ensure_ascii=False)
    # `cut` redacts secrets; a text that is not shortened is a value of the program and stays as it is.
    return f" {notes if len(notes) <= MAX_SHOWN_CHARACTERS else cut(notes, MAX_SHOWN_CHARACTERS)}"


class TaskContext(Struct, frozen=True):
    """Settings that tasks inherit from the tasks around them."""

    depth: int = 0
    """How many composite tasks and template calls enclose the task."""
    history: SequentialHistory | None = None
    """Earlier outputs of the innermost composite; None if its parts do not see each other's outputs."""
    model: str | None = None
    """The model of the innermost composite that sets one; the default of the tasks inside."""
    provider: str | None = None
    max_depth: int | None = None
    """The levels of subtasks that the innermost composite with a `max_depth` allows."""
    chain: Chain | None = None
    """The chain of the enclosing subtask; None outside of subtasks."""
    called_at: Span = NOWHERE
    """Where the template is called, if the next task is the body of a template."""

    def deeper(self, span: Span, *, called_at: Span = NOWHERE, **changes: Any) -> "TaskContext":
        """Return the context one level further in. Raise TaskFailed beyond the depth limit."""
        if self.depth >= MAX_TASK_DEPTH:
            message = f"tasks are nested deeper than {MAX_TASK_DEPTH} levels"
            metrics = {"used": float(self.depth + 1), "limit": float(MAX_TASK_DEPTH)}
            raise TaskFailed(ResourceExhaustion("depth", message, metrics=metrics), span=span)
        if not changes:
            return TaskContext(
                self.depth + 1, self.history, self.model, self.provider, self.max_depth, self.chain, called_at
            )
        return msgspec.structs.replace(self, depth=self.depth + 1, called_at=called_at, **changes)


_CURRENT: ContextVar[TaskContext] = ContextVar("task_context", default=TaskContext())  # noqa: B039 (frozen)


def current_context() -> TaskContext:
    return _CURRENT.get()


class use_context:  # noqa: N801  used as `with use_context(new)`
    """Runs a block of compiled code in another context. Branches that start in the block inherit it."""

    __slots__ = ("_new", "_token")

    def __init__(self, new: TaskContext) -> None:
        self._new = new

    def __enter__(self) -> None:
        self._token = _CURRENT.set(self._new)

    def __exit__(self, *_: object) -> None:
        _CURRENT.reset(self._token)
