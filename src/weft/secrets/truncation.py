"""Truncate texts, and pass streams on, without cutting a secret in half.

Wherever a text is shortened and more is said after it, it is shortened by one of these.
"""

from collections.abc import Callable

from weft.secrets.registry import redact, unfinished
from weft.secrets.registry import redact as redact_all

MARGIN = 20_000
"""How far behind the place of a cut is looked: further than a secret, encoded and broken into lines, goes."""


def cut(text: str, most: int, end: str = "...", *, redact: Callable[[str], str] = redact_all) -> str:
    """The first `most` characters of the text without secrets, and `end` if that is not all.

    Of a very long text only the beginning is looked at.
    """
    if len(text) <= most + 2 * MARGIN:
        shown = redact(text)
        return shown if len(shown) <= most else f"{shown[:most]}{end}"
    # At the end of the part a secret may be cut in half; marks are shorter than what they stand for, so
    # that end may come near.
    shown = redact(text[: most + 2 * MARGIN])
    return f"{shown[: min(most, max(0, len(shown) - MARGIN))]}{end}"


def cut_middle(text: str, most: int) -> str:
    """The beginning and the end of a text that is longer than `most` characters, and how much is left off.

    A text that is not too long is given as it is.
    """
    if len(text) <= most:
        return text
    half = most // 2
    shown = redact_all(text)
    if len(shown) <= most:
        return shown
    return f"{shown[:half]}\n[... {len(shown) - 2 * half} characters left off ...]\n{shown[-half:]}"


def without_half(text: str) -> str:
    """The text, which somebody has cut at its end, without secrets and without one that begins there."""
    return redact_all(text[: unfinished(text)])


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
