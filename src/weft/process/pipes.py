"""Pipes of a child process: its output, kept up to a limit, and its input."""

import asyncio
import contextlib
import os
from bisect import bisect_right
from typing import IO

from weft.secrets.registry import redact
from weft.text import decode_text

READ_BYTES = 64 * 1024
"""Maximum size of one read or write: the default capacity of a pipe on Linux."""

MOST_READS_AT_CLOSE = 16
"""Enough for the maximum capacity of a pipe, 1 MiB for users other than root."""

TAIL_BYTES = 2000
"""Bytes kept from the end of an output besides its beginning: error messages are usually at the end."""


_ESCAPED = bytes(set(range(32)) - set(b"\b\t\n\f\r"))
"""Characters that JSON writes as six characters each, such as \\u0000."""


def stored_size(data: bytes | memoryview) -> int:
    """Return about the size of an output in a store, where it is JSON and control characters are escaped."""
    return len(data) + 5 * (len(data) - len(bytes(data).translate(None, _ESCAPED)))


class OutputPipe:
    """The output of a process: its first bytes, up to `limit` in stored size, and its last few."""

    def __init__(self, pipe: IO[bytes], limit: int) -> None:
        self._pipe = pipe
        self._left = limit
        """Remaining space, in stored size."""
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
        """Return the kept output, with a note at the end if it was truncated."""
        text = decode_text(self.kept)
        if not self.is_cut:
            return text
        # Redacted here: later redaction does not recognise half of a secret followed by a note.
        return f"{redact(text)}\n[cut: {self.total - len(self.kept)} of {self.total} bytes left out]"

    @property
    def last_text(self) -> str:
        """Return the end of the output."""
        return redact(decode_text(self.tail).strip())

    def close(self) -> None:
        """Read the data that is available, and close the pipe."""
        # Limited: a process that left the group may keep writing as fast as we read.
        for _ in range(MOST_READS_AT_CLOSE):
            if self.is_closed.is_set() or not self._read():
                break
        if not self.is_closed.is_set():
            self._close()

    def _read(self) -> bool:
        """Read once; return whether there was data."""
        try:
            data = os.read(self._pipe.fileno(), READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        if not data:
            self._close()
            return False
        # Beyond the limit data is read and dropped: a full pipe would block the process for ever.
        self._keep(data)
        self.tail += data[-TAIL_BYTES:]
        del self.tail[:-TAIL_BYTES]
        self.total += len(data)
        return True

    def _keep(self, data: bytes) -> None:
        """Keep as much of the data as fits; nothing after the first dropped byte."""
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
    """The input of a process."""

    def __init__(self, pipe: IO[bytes], text: bytes) -> None:
        self._pipe = pipe
        self._unwritten = memoryview(text)
        self._loop = asyncio.get_running_loop()
        os.set_blocking(pipe.fileno(), False)
        self._loop.add_writer(pipe.fileno(), self._write)

    def close(self) -> None:
        if not self._pipe.closed:
            self._loop.remove_writer(self._pipe.fileno())
            # Popen's pipe is buffered, but nothing was written through the buffer: no flush is needed.
            with contextlib.suppress(BrokenPipeError):
                self._pipe.close()

    def _write(self) -> None:
        try:
            written = os.write(self._pipe.fileno(), self._unwritten[:READ_BYTES])
        except (BlockingIOError, InterruptedError):
            return
        except BrokenPipeError:
            self.close()  # A process need not read its input.
            return
        self._unwritten = self._unwritten[written:]
        if not self._unwritten:
            self.close()
