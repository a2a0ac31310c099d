"""The bytes of files below a root, one after another."""

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from weft.cache_folder import identity, open_databases
from weft.memory.walking import open_folder, open_in, stat_in

_MAY_HAVE_GROWN_BYTES = 16_384
"""What is asked for beyond the size of a file: it may be larger by now, and some say that they have none."""


class Reader:
    """Reads files of a root, for a moment: the folder it read from last stays open.

    Files come folder by folder, and going there from the root takes longer than to read a small one.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path: str | None = None
        self._folder = -1
        self._databases = open_databases()  # once: later connections are to those that are open already

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def read(self, path: str, max_bytes: int) -> tuple[bytes, os.stat_result]:
        """The bytes of a file, too many if it has more, and what was known of it before they were read.

        Raises OSError if it is no ordinary file below the root, a link is on the way, or it belongs to a
        database that this process has open.
        """
        folder, _, name = path.rpartition("/")
        if folder != self._path:
            self._leave()
            self._folder = open_folder(self._root, folder)
            self._path = folder
        if identity(stat_in(self._folder, name)) in self._databases:
            raise OSError(f"{path} belongs to a database that is open")
        descriptor = open_in(self._folder, name)
        try:
            known = os.fstat(descriptor)
            content = b""
            wanted = min(known.st_size + _MAY_HAVE_GROWN_BYTES, max_bytes + 1)
            while len(content) <= max_bytes and (more := os.read(descriptor, wanted)):
                content += more
            return content, known
        finally:
            os.close(descriptor)

    def _leave(self) -> None:
        if self._path is not None:
            self._path = None
            os.close(self._folder)
