"""Events without secrets, for whoever is told of them: a terminal, a page, a program that uses weft."""

from weft.llm.events import ModelEvent, OnEvent, TextArrived, TurnEnded, TurnFailed
from weft.secrets.registry import is_any, redact_struct
from weft.secrets.streams import RedactedStream


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
