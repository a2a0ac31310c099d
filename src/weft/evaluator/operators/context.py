"""What a running task inherits: context, the steps so far, the conversation."""

import json
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import msgspec
from msgspec import Struct

from weft.evaluator.branches import current_branch
from weft.evaluator.conversion import result_json, told_notes
from weft.evaluator.effects import Turn
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import ResourceExhaustion, TaskResult
from weft.evaluator.subtasks.chain import Chain
from weft.language.source import NOWHERE, Span
from weft.language.task_fields import ContextManagement, HistorySettings
from weft.limits import MAX_SHOWN_CHARACTERS, MAX_TASK_DEPTH
from weft.secrets.truncation import cut

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


class StepOutput(Struct, frozen=True):
    """One step that is done."""

    title: str
    result: TaskResult


class SequentialHistory:
    """The outputs of earlier steps, and how much of them later steps are told.

    It lives in the evaluator: nothing of it counts against a model's window but what `text` gives.
    """

    def __init__(self, settings: ContextManagement) -> None:
        self.outputs: list[StepOutput] = []
        self._settings = settings
        self._told: list[str] = []
        """What is told of each step; put together once."""

    def add(self, title: str, result: TaskResult) -> None:
        """Keep the result of the step that ended now."""
        output = StepOutput(title, result)
        self.outputs.append(output)
        if self._settings.accumulate_data:
            is_full = self._settings.accumulation_format == "full_output"
            self._told.append((_whole if is_full else _line)(len(self.outputs), output))

    def results(self) -> list[TaskResult]:
        """The results so far, as a new list."""
        return [output.result for output in self.outputs]

    def text(self) -> str | None:
        """What the next step is told as its `previous_outputs`; None: nothing."""
        between = "\n\n" if self._settings.accumulation_format == "full_output" else "\n"
        return between.join(self._told) or None

    def notes(self) -> list[dict[str, Any]]:
        """One short entry per step, for the notes of the whole."""
        return [
            {"step": index, "title": output.title, "status": output.result.status}
            for index, output in enumerate(self.outputs)
        ]

    def partial_results(self) -> list[dict[str, Any]]:
        """The results so far as JSON, for the details of a failure."""
        return partial_results({step: output.result for step, output in enumerate(self.outputs)})


def partial_results(results: Mapping[int, TaskResult]) -> list[dict[str, Any]]:
    """Return results as JSON, each with the number of its step: of concurrent steps some may be missing."""
    return [{"step": step, **result_json(results[step])} for step in sorted(results)]


def _whole(number: int, output: StepOutput) -> str:
    return f"[{number}] {output.title}\n{output.result.content}"


def _line(number: int, output: StepOutput) -> str:
    """A step in one line: its title, its status, and its notes as far as they are short."""
    line = f"{number}. {output.title}: {output.result.status}"
    told = told_notes(output.result.notes)
    if not told:
        return line
    notes = json.dumps(told, ensure_ascii=False)
    # What is not cut is a value of the program, and stays as it is.
    return f"{line} {notes if len(notes) <= MAX_SHOWN_CHARACTERS else cut(notes, MAX_SHOWN_CHARACTERS)}"


class Surroundings(Struct, frozen=True):
    """The tasks around, in as much as they matter to those inside."""

    depth: int = 0
    """How many composite tasks and template calls are around."""
    history: SequentialHistory | None = None
    """Of the innermost composite that has one."""
    model: str | None = None
    """What the innermost composite that names a model says; the default of the tasks inside."""
    provider: str | None = None
    max_depth: int | None = None
    """How many levels of subtasks the innermost composite that says it allows."""
    chain: Chain | None = None
    """The subtask that the task is inside of; None: of none."""
    called_at: Span = NOWHERE
    """Where the template is called whose body is the very next task; nowhere: that is no such body."""

    def deeper(self, span: Span, *, called_at: Span = NOWHERE, **changes: Any) -> "Surroundings":
        """The surroundings one level further in; raises TaskFailed where the limit is passed."""
        if self.depth >= MAX_TASK_DEPTH:
            message = f"tasks are nested deeper than {MAX_TASK_DEPTH} levels"
            metrics = {"used": float(self.depth + 1), "limit": float(MAX_TASK_DEPTH)}
            raise TaskFailed(ResourceExhaustion("depth", message, metrics=metrics), span=span)
        if not changes:
            return Surroundings(
                self.depth + 1, self.history, self.model, self.provider, self.max_depth, self.chain, called_at
            )
        return msgspec.structs.replace(self, depth=self.depth + 1, called_at=called_at, **changes)


_CURRENT: ContextVar[Surroundings] = ContextVar("surroundings", default=Surroundings())  # noqa: B039 (frozen)


def surroundings() -> Surroundings:
    """Those of the code that runs now."""
    return _CURRENT.get()


class inside:  # noqa: N801  reads as a word: `with inside(new)`
    """Runs a block of compiled code in other surroundings. Branches that begin in it get them too."""

    __slots__ = ("_new", "_token")

    def __init__(self, new: Surroundings) -> None:
        self._new = new

    def __enter__(self) -> None:
        self._token = _CURRENT.set(self._new)

    def __exit__(self, *_: object) -> None:
        _CURRENT.reset(self._token)
