"""Pipes of a child process: its output, kept up to a limit or read as it comes, and its input."""

import asyncio
import contextlib
import os
from bisect import bisect_right
from collections.abc import Callable
from typing import IO

from weft.limits import decode_text
from weft.secrets.registry import redact

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


class ReadPipe:
    """A pipe that a process writes to, read by the event loop as data arrives."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._loop = asyncio.get_running_loop()
        self.is_closed = asyncio.Event()
        os.set_blocking(pipe.fileno(), False)
        self._loop.add_reader(pipe.fileno(), self._read)

    def close(self) -> None:
        """Read the data that is available, and close the pipe."""
        # Limited: a process that left the group may keep writing as fast as we read.
        for _ in range(MOST_READS_AT_CLOSE):
            if self.is_closed.is_set() or not self._read():
                break
        if not self.is_closed.is_set():
            self._close()

    def _take(self, data: bytes) -> None:
        """Handle data; for subclasses."""
        raise NotImplementedError

    def _read(self) -> bool:
        """Read once; return whether there was data."""
        try:
            data = os.read(self._pipe.fileno(), READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        if not data:
            self._close()
            return False
        self._take(data)
        return True

    def _close(self) -> None:
        self._loop.remove_reader(self._pipe.fileno())
        self._pipe.close()
        self.is_closed.set()


class OutputPipe(ReadPipe):
    """The output of a process: its first bytes, up to `limit` in stored size, and its last few."""

    def __init__(self, pipe: IO[bytes], limit: int) -> None:
        self._left = limit
        """Remaining space, in stored size."""
        self.kept = bytearray()
        self.tail = bytearray()
        self.total = 0
        super().__init__(pipe)

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

    def _take(self, data: bytes) -> None:
        # Beyond the limit data is read and dropped: a full pipe would block the process for ever.
        self._keep(data)
        self.tail += data[-TAIL_BYTES:]
        del self.tail[:-TAIL_BYTES]
        self.total += len(data)

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


class LinePipe(ReadPipe):
    """The output of a process, passed on line by line; longer lines than READ_BYTES come in pieces."""

    def __init__(self, pipe: IO[bytes], on_line: Callable[[bytes], None]) -> None:
        self._on_line = on_line
        self._line = b""
        super().__init__(pipe)

    def _take(self, data: bytes) -> None:
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            self._on_line(line)
        if len(self._line) > READ_BYTES:
            self._on_line(self._line)
            self._line = b""

    def _close(self) -> None:
        super()._close()
        self._on_line(self._line)


class StreamPipe(ReadPipe):
    """The output of a process, read on demand: while nobody reads, the process has to wait."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._data = b""
        self._has_news = asyncio.Event()
        super().__init__(pipe)

    async def read(self) -> bytes:
        """Return the next bytes; empty at the end."""
        await self._has_news.wait()
        data, self._data = self._data, b""
        if not self.is_closed.is_set():
            self._has_news.clear()
            self._loop.add_reader(self._pipe.fileno(), self._read)
        return data

    def _take(self, data: bytes) -> None:
        self._data += data
        self._loop.remove_reader(self._pipe.fileno())
        self._has_news.set()

    def _close(self) -> None:
        super()._close()
        self._has_news.set()


class InputPipe:
    """The input of a process: `text`, after which it is closed; without a text it stays open."""

    def __init__(self, pipe: IO[bytes], text: bytes | None = None) -> None:
        self._pipe = pipe
        self._is_kept_open = text is None
        self._unwritten = memoryview(text or b"")
        self._is_written = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        os.set_blocking(pipe.fileno(), False)
        if text is not None:
            self._loop.add_writer(pipe.fileno(), self._write)

    async def write(self, data: bytes) -> None:
        """Write data to an open pipe, one caller at a time. Raise BrokenPipeError if nobody reads it."""
        if not self._pipe.closed:
            self._unwritten = memoryview(data)
            self._is_written.clear()
            self._loop.add_writer(self._pipe.fileno(), self._write)
            await self._is_written.wait()
        if self._pipe.closed:
            raise BrokenPipeError

    def close(self) -> None:
        if not self._pipe.closed:
            self._loop.remove_writer(self._pipe.fileno())
            # Popen's pipe is buffered, but nothing was written through the buffer: no flush is needed.
            with contextlib.suppress(BrokenPipeError):
                self._pipe.close()
            self._is_written.set()

    def _write(self) -> None:
        try:
            written = os.write(self._pipe.fileno(), self._unwritten[:READ_BYTES])
        except (BlockingIOError, InterruptedError):
            return
        except BrokenPipeError:
            self.close()  # A process need not read its input.
            return
        self._unwritten = self._unwritten[written:]
        if self._unwritten:
            return
        if self._is_kept_open:
            self._loop.remove_writer(self._pipe.fileno())
            self._is_written.set()
        else:
            self.close()
