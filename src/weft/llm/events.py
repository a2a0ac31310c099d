"""Events of a model session, and their redaction for listeners."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from weft.llm.payload import Usage
from weft.secrets.registry import has_secrets, redact_struct
from weft.secrets.truncation import RedactedStream


class TextArrived(Struct, frozen=True, tag="text_arrived"):
    """A piece of the response arrived."""

    step_key: str
    text: str


class TurnEnded(Struct, frozen=True, tag="turn_ended"):
    """A model responded."""

    step_key: str
    model: str
    turn: int
    usage: Usage


class TurnFailed(Struct, frozen=True, tag="turn_failed"):
    """A turn ended without a complete response, but is charged; the usage is an estimate."""

    step_key: str
    model: str
    turn: int
    usage: Usage


class ResponseTruncated(Struct, frozen=True, tag="answer_cut"):
    """A text response was truncated, by the model's output limit or by a budget."""

    step_key: str
    template: str | None
    tokens: int
    """Length of the response."""
    is_by_budget: bool = False
    """Whether a budget limited the response; otherwise the model's output limit did."""


class ToolCalled(Struct, frozen=True, tag="tool_called"):
    """A tool was called for a model."""

    step_key: str
    tool: str
    is_error: bool = False


class ToolRefused(Struct, frozen=True, tag="tool_refused"):
    """A tool call was refused: the template does not list the tool, or the turn has too many calls."""

    step_key: str
    tool: str
    reason: str


class SubtaskChanged(Struct, frozen=True, tag="subtask"):
    """A subtask that a model requested started or ended."""

    step_key: str
    """The step whose model requested the subtask."""
    subtask_key: str
    template: str
    depth: int
    status: Literal["started", "completed", "failed", "cancelled"]


class SubtaskRefused(Struct, frozen=True, tag="subtask_refused"):
    """A model requested an invalid subtask, which was not run."""

    step_key: str
    reason: str


class ResourceWarned(Struct, frozen=True, tag="resource_warned"):
    """A session reached the warning threshold of its turns or context."""

    step_key: str
    resource: str
    used: int
    limit: int


class RequestRetried(Struct, frozen=True, tag="request_retried"):
    """A request failed with a transient error and is retried."""

    model: str
    attempt: int
    delay_seconds: float
    message: str


ModelEvent = (
    TextArrived
    | TurnEnded
    | TurnFailed
    | ResponseTruncated
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
    """Redacts the events of one step. Text that may begin a secret is held back until more text arrives.

    Each step needs its own object, because the texts of concurrent steps must not mix.
    """

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._stream = RedactedStream()

    def tell(self, event: ModelEvent) -> None:
        """Forward the event, redacted; hold back text at the end that may be the beginning of a secret."""
        if isinstance(event, TextArrived):
            self._emit_text(event.step_key, self._stream.feed(event.text))
            return
        if isinstance(event, TurnEnded | TurnFailed):
            self._emit_text(event.step_key, self._stream.end())
        self._on_event(redact_struct(event) if has_secrets() else event)

    def _emit_text(self, step_key: str, text: str) -> None:
        if text:
            self._on_event(TextArrived(step_key, text))
