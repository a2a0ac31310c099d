"""Show the progress of an index update, and its report."""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from weft.cli.display.output import plural
from weft.cli.invoke import echo_status, ignore_stderr_errors

if TYPE_CHECKING:
    from weft.app.memory import IndexProgress, IndexReport


_LINE_SECONDS = 2.0
"""Seconds between two progress lines without a terminal; on a terminal one line is updated every 0.25 s."""


class IndexingLine:
    """Progress of indexing on standard error: one updated line on a terminal, a new line every 2 s elsewhere.

    Silent until a changed file is found. `show` is called in a thread.
    """

    def __init__(self) -> None:
        self._is_begun = False
        self._is_open = False
        """Whether the terminal shows a line without a line break."""
        self._shown_at = 0.0

    def show(self, progress: "IndexProgress") -> None:
        """Print or update the line, at most every 0.25 s on a terminal and 2 s elsewhere."""
        if not progress.changed:
            return
        if not self._is_begun:
            self._is_begun = True
            self._shown_at = time.monotonic()
            echo_status("indexing the files of the project; later updates read only changed files")
        is_terminal = sys.stderr.isatty()
        if time.monotonic() - self._shown_at < (0.25 if is_terminal else _LINE_SECONDS):
            return
        self._shown_at = time.monotonic()
        total = "" if progress.total is None else f" of {progress.total:,}"
        text = f"indexed {progress.seen:,}{total} files"
        if not is_terminal:
            echo_status(text)
            return
        with ignore_stderr_errors():
            self._is_open = True
            sys.stderr.write(f"\r\x1b[2K{text}")
            sys.stderr.flush()

    def end(self) -> None:
        """Clear the line on the terminal."""
        if self._is_open:
            self._is_open = False
            with ignore_stderr_errors():
                sys.stderr.write("\r\x1b[2K")
                sys.stderr.flush()


COMPARED_BYTES = 1_000_000
"""From this size on, sizes are shown in MB, and the size of the index also as a fraction of the text."""

REASONS = {"binary": "binary", "too_large": "too large", "unreadable": "unreadable"}


def echo_waiting() -> None:
    """Print that the update waits for another process."""
    echo_status("another process is updating the index; waiting for it to finish")


def with_bar(
    update: "Callable[[Callable[[IndexProgress], None] | None], IndexReport]",
) -> "IndexReport":
    """Run an update with a progress bar on a terminal, and return its report."""
    if not sys.stderr.isatty():
        return update(None)
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=4, transient=True) as bar:
        task = bar.add_task("looking for files", total=None)

        def show(progress: "IndexProgress") -> None:
            bar.update(task, completed=progress.seen, total=progress.total, description="indexing")

        return update(show)


def report_line(report: "IndexReport") -> str:
    """Format the report of an update: `3 files indexed: 1 new, 2 changed`."""
    changes = [
        f"{count:,} {word}"
        for count, word in ((report.added, "new"), (report.changed, "changed"), (report.removed, "deleted"))
        if count
    ]
    line = f"{plural(report.files, 'file')} indexed: {', '.join(changes) or 'no changes'}"
    skipped = [
        f"{count:,} {REASONS.get(reason, reason)}" for reason, count in report.skipped.items() if count
    ]
    return f"{line}; skipped: {', '.join(skipped)}" if skipped else line


def size_line(text_bytes: int, index_bytes: int) -> str:
    """Format the sizes of text and index, with their ratio unless the text is tiny."""
    ratio = f", {index_bytes / text_bytes:.2f} of the text" if text_bytes >= COMPARED_BYTES else ""
    return f"{size_text(text_bytes)} of text; the index takes {size_text(index_bytes)}{ratio}"


def size_text(count: int) -> str:
    """Format a number of bytes as bytes, kB or MB."""
    if count < 1_000:
        return plural(count, "byte")
    return f"{count / 1e6:,.1f} MB" if count >= COMPARED_BYTES else f"{count / 1e3:,.1f} kB"
