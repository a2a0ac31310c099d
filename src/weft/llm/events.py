"""Events while a model works on a task, redacted for listeners."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from weft.llm.payload import Usage
from weft.secrets.registry import is_any, redact_struct
from weft.secrets.truncation import RedactedStream


class TextArrived(Struct, frozen=True, tag="text_arrived"):
    """A piece of the answer."""

    step_key: str
    text: str


class TurnEnded(Struct, frozen=True, tag="turn_ended"):
    """A model answered."""

    step_key: str
    model: str
    turn: int
    usage: Usage


class TurnFailed(Struct, frozen=True, tag="turn_failed"):
    """A turn brought no whole answer, and is charged for nevertheless; the usage is an estimate."""

    step_key: str
    model: str
    turn: int
    usage: Usage


class AnswerCut(Struct, frozen=True, tag="answer_cut"):
    """A text is not whole: it ends where the model's output has to end, or where a budget bounds it."""

    step_key: str
    template: str | None
    tokens: int
    """Of the answer."""
    is_by_budget: bool = False


class ToolCalled(Struct, frozen=True, tag="tool_called"):
    """A tool that a model asked for was called."""

    step_key: str
    tool: str
    is_error: bool = False


class ToolRefused(Struct, frozen=True, tag="tool_refused"):
    """A model asked for a tool that its template does not list, or that is not there; it was not called."""

    step_key: str
    tool: str
    reason: str


class SubtaskChanged(Struct, frozen=True, tag="subtask"):
    """A subtask that a model asked for has begun or ended."""

    step_key: str
    """The step that spawns it."""
    subtask_key: str
    template: str
    depth: int
    status: Literal["started", "completed", "failed", "cancelled"]


class SubtaskRefused(Struct, frozen=True, tag="subtask_refused"):
    """A model asked for a subtask that there cannot be; nothing was run."""

    step_key: str
    reason: str


class ResourceWarned(Struct, frozen=True, tag="resource_warned"):
    """A session has used more of turns or context than the warning threshold."""

    step_key: str
    resource: str
    used: int
    limit: int


class RequestRetried(Struct, frozen=True, tag="request_retried"):
    """A request failed in a way that may pass; it is made again."""

    model: str
    attempt: int
    delay_seconds: float
    message: str


ModelEvent = (
    TextArrived
    | TurnEnded
    | TurnFailed
    | AnswerCut
    | ToolCalled
    | ToolRefused
    | SubtaskChanged
    | SubtaskRefused
    | ResourceWarned
    | RequestRetried
)

OnEvent = Callable[[ModelEvent], None]
"""Called in the event loop; must not block."""


class RedactedEvents:
    """Passes the events of one step on. Its text is kept back as long as a secret may have begun in it.

    One for each step: models speak at the same time, and what one says must not end what another has begun.
    """

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._stream = RedactedStream()

    def tell(self, event: ModelEvent) -> None:
        """Pass the event on, or as much of it as is safe."""
        if isinstance(event, TextArrived):
            self._text(event.step_key, self._stream.feed(event.text))
            return
        if isinstance(event, TurnEnded | TurnFailed):
            self._text(event.step_key, self._stream.end())
        self._on_event(redact_struct(event) if is_any() else event)

    def _text(self, step_key: str, text: str) -> None:
        if text:
            self._on_event(TextArrived(step_key, text))
