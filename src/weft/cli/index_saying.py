"""How commands index: which folders, with a progress bar, and what they say at the end."""

import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli.saying import say
from weft.cli.text import plural

if TYPE_CHECKING:
    from weft.memory.protocol import IndexProgress, IndexReport

COMPARED_BYTES = 1_000_000
"""From here on sizes are in megabytes: below, the empty tables take more than the text."""

REASONS = {"binary": "no text", "too_large": "too large", "unreadable": "unreadable"}


def chosen_roots(paths: Sequence[str]) -> list[Path]:
    """The folders that were named, else the project's."""
    # Imported here: --help must not pay for it.
    from weft.memory.errors import RootUnavailable
    from weft.project_memory import index_roots

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
