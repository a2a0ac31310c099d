"""Text for terminals."""

import unicodedata
from datetime import datetime

from weft.secrets.registry import redact

_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def printable(text: str, *, width: int | None = None) -> str:
    """The text on one line with nothing in it that moves the cursor, changes colours or hides characters.

    Nor a secret.
    """
    shown = "".join(_visible(character) for character in redact(text))
    if width is not None and len(shown) > width:
        return f"{shown[: width - 1]}…"
    return shown


def printable_lines(text: str, *, indent: int = 2) -> str:
    """The text in its lines, those after the first further in, so that none can be taken for one of ours."""
    return f"\n{' ' * indent}".join(map(printable, text.splitlines())) or printable(text)


def headline(text: str, *, width: int) -> str:
    """The first line of a text: of an error the place and what happened there, without the program's line."""
    return printable(next(iter(text.splitlines()), ""), width=width)


def _visible(character: str) -> str:
    if " " <= character <= "~":
        return character
    if unicodedata.category(character) in _INVISIBLE:
        return character.encode("unicode_escape").decode("ascii")
    return character


def when(at: datetime | None) -> str:
    """A time in the reader's own time zone, to the second."""
    return "-" if at is None else at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def duration(start: datetime | None, end: datetime | None) -> str:
    """How long something took: 0.4s, 12s, 3m05s, 2h10m."""
    if start is None or end is None:
        return ""
    seconds = (end - start).total_seconds()
    if seconds < 10:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest}s"
    hours, minutes_rest = divmod(minutes, 60)
    return f"{minutes}m{rest:02}s" if hours == 0 else f"{hours}h{minutes_rest:02}m"


def plural(count: int, noun: str) -> str:
    """A count with its noun: 1 task, 2 tasks."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
