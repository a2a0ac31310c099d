"""Print text without control characters, tables, and JSON documents."""

import json
import re
import sys
import unicodedata
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from weft.cli.invoke import clean, echo, styled
from weft.secrets.registry import has_secrets, redact
from weft.tasks.flow import Flow
from weft.tasks.summary import FlowSummary, summarize

_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def printable(text: str, *, width: int | None = None) -> str:
    """Return the text on one line, with secrets redacted and control and invisible characters escaped.

    Text longer than `width` characters is cut.
    """
    shown = "".join(_visible(character) for character in redact(text))
    if width is not None and len(shown) > width:
        return f"{shown[: width - 1]}…"
    return shown


def printable_lines(text: str, *, indent: int = 2) -> str:
    """Return the text with its line breaks, later lines indented so that they cannot pass for weft's own."""
    return f"\n{' ' * indent}".join(map(printable, text.splitlines())) or printable(text)


def cut(text: str, width: int) -> str:
    """Return printable text, cut to a width in cells of the terminal."""
    if cells(text) <= width:
        return text
    kept = text[: max(width - 1, 0)]
    while cells(kept) >= width and kept:
        kept = kept[:-1]
    return f"{kept.rstrip()}…"


def cells(text: str) -> int:
    """Return how many cells of a terminal a text takes; some characters take two."""
    if text.isascii():
        return len(text)
    # Imported here: keeps --json and --help fast.
    from rich.cells import cell_len

    return cell_len(text)


def one_line(value: Any) -> str:
    """Return a value as text on one line: a string as it is, anything else as JSON."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return " ".join(text.split())


SHORT_ID = 8
"""Characters of an id that are shown."""


def short_id(task_id: str | None, *, is_full: bool = False) -> str:
    """Return the beginning of an id, by which commands find the task."""
    return str(task_id) if is_full else str(task_id)[:SHORT_ID]


def headline(text: str, *, width: int) -> str:
    """Return the first line of a text, cut to `width`; in an error, it has the location and the message."""
    return printable(next(iter(text.splitlines()), ""), width=width)


def _visible(character: str) -> str:
    if " " <= character <= "~":
        return character
    if unicodedata.category(character) in _INVISIBLE_CATEGORIES:
        return character.encode("unicode_escape").decode("ascii")
    return character


def when(at: datetime | None) -> str:
    """Format a time in the local time zone, to the second; None is `-`."""
    return "-" if at is None else at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def duration(start: datetime | None, end: datetime | None) -> str:
    """Format the time between start and end: 0.4s, 12s, 3m05s, 2h10m; empty without both."""
    if start is None or end is None:
        return ""
    seconds = (end - start).total_seconds()
    if seconds < 10:
        return f"{seconds:.1f}s"
    minutes, whole_seconds = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{whole_seconds}s"
    hours, whole_minutes = divmod(minutes, 60)
    return f"{minutes}m{whole_seconds:02}s" if hours == 0 else f"{hours}h{whole_minutes:02}m"


def plural(count: int, noun: str) -> str:
    """Format a count with its noun: 1 task, 2 tasks."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


_JSON_CONTROLS = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xaa-\xae]|\xe2\x81[\xa6-\xa9]")
"""UTF-8 bytes of control characters that JSON allows in strings; they occur nowhere else in JSON."""

STATUS_COLOURS = {
    "pending": "white",
    "in_progress": "cyan",
    "completed": "green",
    "failed": "red",
    "cancelled": "yellow",
}


def print_json(value: Any) -> None:
    """Print a value as one JSON document."""
    try:
        text = msgspec.json.format(msgspec.json.encode(value), indent=2)
    except UnicodeEncodeError:
        # A lone surrogate, from a name that is not UTF-8: only the slow encoder escapes it.
        text = json.dumps(msgspec.to_builtins(value), indent=2).encode()
    print_json_text(text)


def print_json_text(text: bytes) -> None:
    """Print a JSON document with control characters escaped, also in a pipe or a file."""
    print_bytes(escape_json(text))


def escape_json(text: bytes) -> bytes:
    """Escape DEL, C1 and bidi controls as `\\uXXXX`: JSON allows them unescaped."""
    return _JSON_CONTROLS.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), text)


def print_bytes(text: bytes) -> None:
    """Print UTF-8 text with secrets redacted, whatever the encoding of the terminal is.

    Control characters are escaped on a terminal, but not in a pipe or a file.
    """
    if has_secrets():
        text = redact(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    if sys.stdout.isatty():
        text = clean(text.decode("utf-8", "backslashreplace")).encode()
    sys.stdout.flush()
    sys.stdout.buffer.write(text + b"\n")


def print_flow(flow: Flow, *, is_json: bool, did: str) -> None:
    """Print `did`, then the root id and task counts of a flow; with `is_json`, only its summary as JSON."""
    summary = summarize(flow)
    print_result(summary, f"{did} {summary.root_id} ({counts_line(summary)})", is_json=is_json)


def print_result(document: Any, text: str, *, is_json: bool) -> None:
    """Print the result of a command as a JSON document, or as a line of text."""
    if is_json:
        print_json(document)
    else:
        echo(text)


def counts_line(summary: FlowSummary) -> str:
    """Format the counts of a flow: `3 tasks: 2 completed, 1 pending`."""
    total = plural(sum(summary.counts.values()), "task")
    parts = [f"{count:,} {status}" for status, count in summary.counts.items()]
    if summary.blocked:
        parts.append(f"{summary.blocked:,} blocked")
    if summary.scheduled:
        parts.append(f"{summary.scheduled:,} waiting for a schedule")
    return f"{total}: {', '.join(parts)}"


def print_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, status_column: int | None = None
) -> None:
    """Print rows in aligned columns; the cells of `status_column` are coloured by their status."""
    widths = [max(map(cells, column)) for column in zip(heads, *rows, strict=True)]

    def padded(row: Sequence[str]) -> list[str]:
        filled = [cell + " " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True)]
        return [f"{cell}  " for cell in filled[:-1]] + [filled[-1].rstrip()]

    echo(styled("".join(padded(heads)).rstrip(), bold=True))
    for row in rows:
        parts = padded(row)
        if status_column is not None and (colour := STATUS_COLOURS.get(row[status_column])):
            parts[status_column] = styled(parts[status_column], fg=colour)
        echo(*parts)
