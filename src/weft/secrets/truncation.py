"""Truncates and streams texts without leaving a part of a secret.

Use one of these functions for every text that is truncated and then shown.
"""

from weft.secrets.registry import partial_match_start, redact

MARGIN = 20_000
"""More characters than an encoded secret with line breaks has."""


def cut(text: str, most: int, end: str = "...") -> str:
    """Return the first `most` characters of the redacted text, and `end` if the text is longer.

    A text that is much longer than `most` is searched for secrets only at its beginning.
    """
    if len(text) <= most + 2 * MARGIN:
        shown = redact(text)
        return shown if len(shown) <= most else f"{shown[:most]}{end}"
    # The last MARGIN characters of the searched part may contain a cut secret and are not shown, even if
    # redaction has shortened the part so much that they begin before `most`.
    shown = redact(text[: most + 2 * MARGIN])
    return f"{shown[: min(most, max(0, len(shown) - MARGIN))]}{end}"


def cut_middle(text: str, most: int) -> str:
    """Return the redacted text; a note replaces the middle of one longer than `most` characters."""
    shown = redact(text)
    if len(shown) <= most:
        return shown
    half = most // 2
    return f"{shown[:half]}\n[... {len(shown) - 2 * half} characters left off ...]\n{shown[-half:]}"


def without_half(text: str) -> str:
    """Redact a text that other code has truncated, and remove the beginning of a secret at its end."""
    return redact(text[: partial_match_start(text)])


class RedactedStream:
    """Redacts a stream of text; holds back text that may be the beginning of a secret."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """Add a piece and return the redacted text that can be shown now."""
        text = self._held + piece
        start = partial_match_start(text)
        self._held = text[start:]
        return redact(text[:start])

    def end(self) -> str:
        """Return the text that was held back, redacted."""
        held, self._held = self._held, ""
        return redact(held)
