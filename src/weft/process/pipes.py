"""The pipes of a program: its output kept up to a limit, its input fed as it reads."""

import asyncio
import contextlib
import os
from bisect import bisect_right
from typing import IO

from weft.secrets.registry import redact

READ_BYTES = 64 * 1024
"""As much as a pipe holds on Linux."""

MOST_READS_AT_CLOSE = 16
"""A pipe holds 1 MiB at the very most, for who is not root."""

TAIL_BYTES = 2000
"""How much of the end of an output is kept beside its beginning: where programs say what went wrong."""


_ESCAPED = bytes(set(range(32)) - set(b"\b\t\n\f\r"))
"""What JSON writes with six characters each, as \\u0000."""


def stored_size(data: bytes | memoryview) -> int:
    """Return how many bytes an output takes in a store, where it is kept as JSON."""
    return len(data) + 5 * (len(data) - len(bytes(data).translate(None, _ESCAPED)))


class OutputPipe:
    """What a program writes: the first `limit` bytes as they are stored, and the last few."""

    def __init__(self, pipe: IO[bytes], limit: int) -> None:
        self._pipe = pipe
        self._left = limit
        """How much more is kept."""
        self._loop = asyncio.get_running_loop()
        self.kept = bytearray()
        self.tail = bytearray()
        self.total = 0
        self.is_closed = asyncio.Event()
        os.set_blocking(pipe.fileno(), False)
        self._loop.add_reader(pipe.fileno(), self._read)

    @property
    def is_cut(self) -> bool:
        return self.total > len(self.kept)

    @property
    def text(self) -> str:
        """What was kept; with a note at the end when that is not all."""
        text = self.kept.decode("utf-8", "replace")
        if not self.is_cut:
            return text
        # Redacted here: nobody further on knows half of a secret when it is followed by a note.
        return f"{redact(text)}\n[cut: {self.total - len(self.kept)} of {self.total} bytes left out]"

    @property
    def last_text(self) -> str:
        """The last few lines."""
        return redact(self.tail.decode("utf-8", "replace").strip())

    def close(self) -> None:
        """Read what is there already, and let go of the pipe."""
        # Not until nothing is left: a process that left the group may go on writing as fast as we read.
        for _ in range(MOST_READS_AT_CLOSE):
            if self.is_closed.is_set() or not self._read():
                break
        if not self.is_closed.is_set():
            self._close()

    def _read(self) -> bool:
        """Whether there was something to read."""
        try:
            data = os.read(self._pipe.fileno(), READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        if not data:
            self._close()
            return False
        # Past the limit it is read and dropped: a program whose pipe is full would stop for ever.
        self._keep(data)
        self.tail += data[-TAIL_BYTES:]
        del self.tail[:-TAIL_BYTES]
        self.total += len(data)
        return True

    def _keep(self, data: bytes) -> None:
        """Keep as much of it as there is room for; nothing after the first byte that was dropped."""
        if self.is_cut:
            return
        size = stored_size(data)
        if size > self._left:
            view = memoryview(data)
            lengths = range(1, len(data) + 1)
            data = data[: bisect_right(lengths, self._left, key=lambda length: stored_size(view[:length]))]
            size = stored_size(data)
        self.kept += data
        self._left -= size

    def _close(self) -> None:
        self._loop.remove_reader(self._pipe.fileno())
        self._pipe.close()
        self.is_closed.set()


class InputPipe:
    """What a program gets to read."""

    def __init__(self, pipe: IO[bytes], text: bytes) -> None:
        self._pipe = pipe
        self._rest = memoryview(text)
        self._loop = asyncio.get_running_loop()
        os.set_blocking(pipe.fileno(), False)
        self._loop.add_writer(pipe.fileno(), self._write)

    def close(self) -> None:
        if not self._pipe.closed:
            self._loop.remove_writer(self._pipe.fileno())
            # Popen's pipe is buffered, but we never wrote through its buffer: there is nothing to flush.
            with contextlib.suppress(BrokenPipeError):
                self._pipe.close()

    def _write(self) -> None:
        try:
            written = os.write(self._pipe.fileno(), self._rest[:READ_BYTES])
        except (BlockingIOError, InterruptedError):
            return
        except BrokenPipeError:
            self.close()  # A program need not read what it is given.
            return
        self._rest = self._rest[written:]
        if not self._rest:
            self.close()
