"""Show effects on standard error as they happen: responses, notable events of models, indexing, questions."""

import threading
from pathlib import Path
from typing import Any

from weft.app.evaluation import EffectHooks, events
from weft.cli.display.index_progress import IndexingLine
from weft.cli.display.output import printable
from weft.cli.display.questions import TerminalLock, person_to_ask
from weft.cli.invoke import echo


class ModelEventPrinter:
    """Prints text as it arrives, and notable events: refused tool calls, retries, almost exhausted limits.

    Secrets have been redacted from the events before (`weft.llm.events`).
    """

    def __init__(self) -> None:
        self._step: str | None = None
        """Key of the step with text on the current, unfinished line; None: no line is unfinished."""

    def print_event(self, event: events.ModelEvent) -> None:
        """Print an event if it is notable."""
        match event:
            case events.TextArrived():
                self._print_text(event)
            case events.ToolRefused():
                self._print(f"step {event.step_key}: call of tool '{event.tool}' was refused: {event.reason}")
            case events.SubtaskChanged():
                self._print(f"subtask {event.subtask_key} '{event.template}': {event.status}")
            case events.SubtaskRefused():
                self._print(f"step {event.step_key}: {event.reason}")
            case events.ResponseTruncated():
                self._print(_truncation_text(event))
            case events.ResourceWarned():
                self._print(f"step {event.step_key}: {event.used} of {event.limit} {event.resource} used")
            case events.RequestRetried():
                self._print(f"{event.model}: {event.message}; retrying in {event.delay_seconds:.1f} s")
            case _:
                pass

    def end(self) -> None:
        """Finish the current line of text."""
        if self._step is not None:
            self._step = None
            echo(err=True)

    def _print_text(self, event: events.TextArrived) -> None:
        if self._step not in (None, event.step_key):
            self.end()
        self._step = event.step_key
        echo("\n".join(map(printable, event.text.split("\n"))), nl=False, err=True)

    def _print(self, text: str) -> None:
        self.end()
        echo(printable(text), err=True)


class EffectDisplay:
    """Shows the effects of an evaluation on standard error."""

    def __init__(self) -> None:
        self.model_events = ModelEventPrinter()
        self.terminal = TerminalLock()
        self._indexing = IndexingLine()

    def hooks(self, *, is_streaming: bool = False, stores_questions: bool = True) -> EffectHooks:
        """Return the hooks that connect effects with this display and with the person at the terminal."""
        return EffectHooks(
            log_message=_print_message,
            on_event=self.model_events.print_event,
            is_streaming=is_streaming,
            ask_person=person_to_ask(self.terminal),
            stores_questions=stores_questions,
            fetch=_fetch,
            on_indexing=self._indexing.show,
        )

    def end(self) -> None:
        """Finish the lines that are still open on standard error."""
        self._indexing.end()
        self.model_events.end()


def _fetch(entry: Any, stop: threading.Event) -> Path:
    # Imported here: few evaluations download a model.
    from weft.cli.models import fetch_model

    return fetch_model(entry, stop)


def _print_message(message: str) -> None:
    for line in message.splitlines() or [""]:
        echo(printable(line), err=True)


def _truncation_text(event: events.ResponseTruncated) -> str:
    who = f"'{event.template}' (step {event.step_key})" if event.template else f"step {event.step_key}"
    why = "the budget is used up" if event.is_by_budget else "the model's maximum output length is reached"
    return f"{who}: the response was truncated after {event.tokens} tokens: {why}"
