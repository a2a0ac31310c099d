"""Print events of model sessions to standard error as they happen."""

import re

from weft.cli.display.output import printable
from weft.cli.invoke import echo
from weft.llm.events import (
    ModelEvent,
    RequestRetried,
    ResourceWarned,
    ResponseTruncated,
    SubtaskChanged,
    SubtaskRefused,
    TextArrived,
    ToolRefused,
)

_LINE_BREAK = re.compile(r"(\n)")


class ModelEventPrinter:
    """Prints text as it arrives, and notable events: refused tool calls, retries, almost exhausted limits.

    Secrets have been redacted from the events before (`weft.llm.events`).
    """

    def __init__(self) -> None:
        self._step: str | None = None
        """Key of the step with text on the current, unfinished line; None: no line is unfinished."""

    def print_event(self, event: ModelEvent) -> None:
        """Print an event if it is notable."""
        match event:
            case TextArrived():
                self._print_text(event)
            case ToolRefused():
                self._print(f"step {event.step_key}: call of tool '{event.tool}' was refused: {event.reason}")
            case SubtaskChanged():
                self._print(f"subtask {event.subtask_key} '{event.template}': {event.status}")
            case SubtaskRefused():
                self._print(f"step {event.step_key}: {event.reason}")
            case ResponseTruncated():
                self._print(_truncation_text(event))
            case ResourceWarned():
                self._print(f"step {event.step_key}: {event.used} of {event.limit} {event.resource} used")
            case RequestRetried():
                self._print(f"{event.model}: {event.message}; retrying in {event.delay_seconds:.1f} s")
            case _:
                pass

    def end(self) -> None:
        """Finish the current line of text."""
        if self._step is not None:
            self._step = None
            echo(err=True)

    def _print_text(self, event: TextArrived) -> None:
        if self._step not in (None, event.step_key):
            self.end()
        self._step = event.step_key
        echo(_shown(event.text), nl=False, err=True)

    def _print(self, text: str) -> None:
        self.end()
        echo(printable(text), err=True)


def _truncation_text(event: ResponseTruncated) -> str:
    who = f"'{event.template}' (step {event.step_key})" if event.template else f"step {event.step_key}"
    why = "the budget is used up" if event.is_by_budget else "the model's maximum output length is reached"
    return f"{who}: the response was truncated after {event.tokens} tokens: {why}"


def _shown(text: str) -> str:
    return "".join("\n" if part == "\n" else printable(part) for part in _LINE_BREAK.split(text))
