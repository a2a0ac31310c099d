"""Says how far an index is that somebody waits for, on standard error."""

import sys
import time
from typing import TYPE_CHECKING

from weft.cli.saying import heard_or_not, say

if TYPE_CHECKING:
    from weft.memory.protocol import IndexProgress

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
        with heard_or_not():
            self._is_open = True
            sys.stderr.write(f"\r\x1b[2K{text}")
            sys.stderr.flush()

    def end(self) -> None:
        """Take the line away that is not ended."""
        if self._is_open:
            self._is_open = False
            with heard_or_not():
                sys.stderr.write("\r\x1b[2K")
                sys.stderr.flush()
