"""What commands print: one JSON document for machines, lines for people."""

import json
import re
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from weft.cli.saying import clean, echo, styled
from weft.cli.text import plural
from weft.secrets.registry import is_any, redact
from weft.tasks.flow import Flow
from weft.tasks.summary import FlowSummary, summarize

_JSON_CONTROLS = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xaa-\xae]|\xe2\x81[\xa6-\xa9]")
"""In UTF-8. They stand in strings only: nowhere else does JSON have any."""

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
        # Half a surrogate pair, from a name that is no UTF-8: escaped, as only the slow encoder does.
        text = json.dumps(msgspec.to_builtins(value), indent=2).encode()
    print_json_text(text)


def print_json_text(text: bytes) -> None:
    """Print a JSON document, on a terminal or not, with control characters escaped."""
    print_bytes(escape_json(text))


def escape_json(text: bytes) -> bytes:
    """Return the JSON document with DEL, C1 and bidi controls as `\\uXXXX`: JSON allows them as they are."""
    return _JSON_CONTROLS.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), text)


def print_bytes(text: bytes) -> None:
    """Print UTF-8 text, without secrets, whatever the terminal's own encoding is.

    A pipe or a file gets it as it is; on a terminal control characters are escaped.
    """
    if is_any():
        text = redact(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    if sys.stdout.isatty():
        text = clean(text.decode("utf-8", "backslashreplace")).encode()
    sys.stdout.flush()
    sys.stdout.buffer.write(text + b"\n")


def print_flow(flow: Flow, *, is_json: bool, did: str) -> None:
    """Tell what was made: its root, and how it stands."""
    summary = summarize(flow)
    if is_json:
        print_json(summary)
        return
    echo(f"{did} {summary.root_id} ({counts_line(summary)})")


def counts_line(summary: FlowSummary) -> str:
    """The counts of a flow in words: 3 tasks: 2 completed, 1 pending."""
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
    """Print rows in columns as wide as their contents."""
    # Imported here: --json and --help must not pay for it.
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(heads, *rows, strict=True)]

    def padded(cells: Sequence[str]) -> list[str]:
        filled = [cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)]
        return [f"{cell}  " for cell in filled[:-1]] + [filled[-1].rstrip()]

    echo(styled("".join(padded(heads)).rstrip(), bold=True))
    for row in rows:
        parts = padded(row)
        if status_column is not None and (colour := STATUS_COLOURS.get(row[status_column])):
            parts[status_column] = styled(parts[status_column], fg=colour)
        echo(*parts)
