"""What commands print: one JSON document for machines, lines for people."""

import json
import sys
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from weft.cli.text import plural
from weft.secrets.registry import is_any, redact
from weft.tasks.flow import Flow
from weft.tasks.summary import FlowSummary, summarize

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
        text = msgspec.json.encode(value)
    except UnicodeEncodeError:
        # Half a surrogate pair, from an argument that is no UTF-8: escaped, as only the slow encoder does.
        text = json.dumps(msgspec.to_builtins(value)).encode()
    print_bytes(msgspec.json.format(text, indent=2))


def print_bytes(text: bytes) -> None:
    """Print UTF-8 text, without secrets, whatever the terminal's own encoding is."""
    if is_any():
        text = redact(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    sys.stdout.flush()
    sys.stdout.buffer.write(text + b"\n")


def print_flow(flow: Flow, *, is_json: bool, did: str) -> None:
    """Tell what was made: its root, and how it stands."""
    summary = summarize(flow)
    if is_json:
        print_json(summary)
        return
    click.echo(f"{did} {summary.root_id} ({counts_line(summary)})")


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

    def line(cells: Sequence[str], colour: str | None) -> str:
        padded = [cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)]
        if colour and status_column is not None:
            padded[status_column] = click.style(padded[status_column], fg=colour)
        return "  ".join(padded).rstrip()

    click.echo(click.style(line(heads, None), bold=True))
    for row in rows:
        status = row[status_column] if status_column is not None else ""
        click.echo(line(row, STATUS_COLOURS.get(status)))
