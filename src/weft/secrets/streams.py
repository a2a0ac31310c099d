"""Text that comes in pieces, passed on without secrets: one may come in two pieces."""

from weft.secrets.registry import redact, unfinished


class RedactedStream:
    """Passes pieces on; keeps back the end of a piece as long as a secret may have begun there."""

    def __init__(self) -> None:
        self._kept = ""

    def feed(self, piece: str) -> str:
        """What can be shown now."""
        text = self._kept + piece
        start = unfinished(text)
        self._kept = text[start:]
        return redact(text[:start])

    def end(self) -> str:
        """What was kept back."""
        kept, self._kept = self._kept, ""
        return redact(kept)
