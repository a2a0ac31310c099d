"""Files of rules that lie outside of a root and count in it: whether they have changed."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from weft.memory.ignore_rules import rule_files_above

State = tuple[int, int, int, int] | None
"""What tells one content of a file from another; None: there is no file."""


class RulesAbove:
    """The files of rules above some roots, as they were when they were last looked at.

    They are looked at from time to time: to watch them would be to watch every file of the folders above.
    """

    def __init__(self, roots: Iterable[Path]) -> None:
        self._files = {root: rule_files_above(root) for root in roots}
        self._states = self._look()

    def changed(self) -> list[Path]:
        """The roots whose rules have changed since the last look."""
        before, self._states = self._states, self._look()
        if before == self._states:
            return []
        new = {file for file, state in self._states.items() if state != before[file]}
        return [root for root, files in self._files.items() if new.intersection(files)]

    def _look(self) -> dict[Path, State]:
        return {file: _state(file) for files in self._files.values() for file in files}


def _state(file: Path) -> State:
    with suppress(OSError):
        known = file.stat()
        return known.st_ino, known.st_size, known.st_mtime_ns, known.st_ctime_ns
    return None
