"""What the steps of a composite task gave so far."""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from weft.evaluator.plain import result_json, told_notes
from weft.evaluator.results import TaskResult
from weft.language.task_fields import ContextManagement
from weft.limits import MAX_SHOWN_CHARACTERS
from weft.secrets.cutting import cut


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
