"""Show the progress of an index update, and its report."""

import stat
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli.display.output import plural
from weft.cli.invoke import ignore_stderr_errors, say

if TYPE_CHECKING:
    from weft.memory.protocol import IndexProgress, IndexReport


_LINE_SECONDS = 2.0
"""How often a line is said where there is no terminal: there every quarter of a second one is overwritten."""


class IndexingLine:
    """Told of progress in a thread. It says nothing while no file is new: a look at them is quick."""

    def __init__(self) -> None:
        self._is_begun = False
        self._is_open = False
        """Whether a line stands on the terminal that is not ended."""
        self._said_at = 0.0

    def tell(self, progress: "IndexProgress") -> None:
        """Say how far it is, if it is time to."""
        if not progress.changed:
            return
        if not self._is_begun:
            self._is_begun = True
            self._said_at = time.monotonic()
            say("indexing the files of the project; later only what changes is read")
        is_terminal = sys.stderr.isatty()
        if time.monotonic() - self._said_at < (0.25 if is_terminal else _LINE_SECONDS):
            return
        self._said_at = time.monotonic()
        total = "" if progress.total is None else f" of {progress.total:,}"
        text = f"indexed {progress.seen:,}{total} files"
        if not is_terminal:
            say(text)
            return
        with ignore_stderr_errors():
            self._is_open = True
            sys.stderr.write(f"\r\x1b[2K{text}")
            sys.stderr.flush()

    def end(self) -> None:
        """Take the line away that is not ended."""
        if self._is_open:
            self._is_open = False
            with ignore_stderr_errors():
                sys.stderr.write("\r\x1b[2K")
                sys.stderr.flush()


COMPARED_BYTES = 1_000_000
"""From here on sizes are in megabytes: below, the empty tables take more than the text."""

REASONS = {"binary": "no text", "too_large": "too large", "unreadable": "unreadable"}


def chosen_roots(paths: Sequence[str]) -> list[Path]:
    """The folders that were named, else the project's."""
    # Imported here: --help must not pay for it.
    from weft.effects.memory import index_roots
    from weft.memory.errors import RootUnavailable

    roots = [Path(path) for path in paths] or index_roots()
    for root in roots:
        why = _why_no_root(root)
        if why is not None:
            raise RootUnavailable(str(root), why)
    return roots


def _why_no_root(root: Path) -> str | None:
    try:
        return None if stat.S_ISDIR(root.stat().st_mode) else "it is a file, no folder"
    except (FileNotFoundError, NotADirectoryError):
        return "there is no such folder"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"


def say_waiting(root: str) -> None:
    """Say why nothing happens."""
    say(f"{root} is being indexed by another process: waiting until it has done")


def with_bar(
    update: "Callable[[Callable[[IndexProgress], None] | None], IndexReport]",
) -> "IndexReport":
    """The report of an update, which shows how far it is on a terminal."""
    if not sys.stderr.isatty():
        return update(None)
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=4, transient=True) as bar:
        task = bar.add_task("looking for files", total=None)

        def tell(progress: "IndexProgress") -> None:
            bar.update(task, completed=progress.seen, total=progress.total, description="indexing")

        return update(tell)


def report_line(report: "IndexReport") -> str:
    """What an update did, in words."""
    changes = [
        f"{count:,} {word}"
        for count, word in ((report.added, "new"), (report.changed, "changed"), (report.removed, "gone"))
        if count
    ]
    line = f"{plural(report.files, 'file')} indexed: {', '.join(changes) or 'nothing has changed'}"
    left_out = [
        f"{count:,} {REASONS.get(reason, reason)}" for reason, count in report.skipped.items() if count
    ]
    return f"{line}; left out: {', '.join(left_out)}" if left_out else line


def size_line(text_bytes: int, index_bytes: int) -> str:
    """How large the index is; compared with the text where that is more than the tables take empty."""
    ratio = f", {index_bytes / text_bytes:.2f} of the text" if text_bytes >= COMPARED_BYTES else ""
    return f"{size_text(text_bytes)} of text; the index takes {size_text(index_bytes)}{ratio}"


def size_text(count: int) -> str:
    """So many bytes, in a unit in which they are not nothing."""
    if count < 1_000:
        return plural(count, "byte")
    return f"{count / 1e6:,.1f} MB" if count >= COMPARED_BYTES else f"{count / 1e3:,.1f} kB"
