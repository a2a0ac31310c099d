"""The process of an MCP server, in a process group of its own, which is ended as a whole.

The SDK's own transport is not used: it passes on variables of the environment that weft does not choose, does
not limit the length of lines, and leaves servers running after `kill -9` of this process.
"""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from typing import Protocol

from weft.secrets.truncation import cut
from weft.text import decode_text
from weft.tools.mcp.config import StdioServer

PASSED_ON = frozenset({"PATH", "HOME", "LANG", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "USER"})
"""Variables of weft's environment that are passed on, with LC_*. Others may contain keys and tokens."""

GRACE_SECONDS = 2.0
"""How long a server may take to end after its input is closed, and again after SIGTERM."""

KILL_SECONDS = 2.0
"""How long a server may take to end after SIGKILL."""

POLL_SECONDS = 0.01

LAST_WORDS_SECONDS = 0.5
"""How long to read standard error after standard output has ended: it often says why the server ended."""

PIECE_BYTES = 65536

MAX_WORDS_CHARACTERS = 300
"""Maximum length of the standard error that is repeated in an error message."""

log = logging.getLogger(__name__)


class GroupGuard(Protocol):
    """Kills process groups when this process ends, even by SIGKILL."""

    def guard(self, group: int) -> None:
        """Kill the group when this process ends."""
        ...

    def release(self, group: int) -> None:
        """Stop guarding the group."""
        ...


class NoGuard:
    """Does nothing: servers must end by themselves when their input ends."""

    def guard(self, group: int) -> None: ...

    def release(self, group: int) -> None: ...


class ServerProcess:
    """A running server, and the processes that it started in its group."""

    def __init__(self, process: "subprocess.Popen[bytes]", name: str, guard: GroupGuard) -> None:
        self._process = process
        self._name = name
        self._guard = guard
        self.pid = process.pid
        self.grace_seconds = GRACE_SECONDS
        self.last_words = ""
        """Last line on standard error."""
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._stderr: asyncio.StreamReader | None = None
        self._stderr_ended = asyncio.Event()
        self._transports: list[asyncio.BaseTransport] = []

    @classmethod
    def start(cls, server: StdioServer, environment: Mapping[str, str], guard: GroupGuard) -> "ServerProcess":
        """Start the process. Raise OSError and ValueError like Popen."""
        process = subprocess.Popen(
            [server.command, *server.args],
            env={**_inherited(environment), **server.env},
            cwd=server.cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        guard.guard(process.pid)
        return cls(process, server.name, guard)

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._reader = await self._open_reader(loop, self._process.stdout)
        self._stderr = await self._open_reader(loop, self._process.stderr)
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.streams.FlowControlMixin(loop=loop), self._process.stdin
        )
        self._writer = asyncio.StreamWriter(transport, protocol, None, loop)

    async def _open_reader(self, loop: asyncio.AbstractEventLoop, pipe: object) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=PIECE_BYTES, loop=loop)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        self._transports.append(transport)
        return reader

    async def read(self) -> bytes:
        """Return the next bytes of standard output; empty at its end."""
        return b"" if self._reader is None else await self._reader.read(PIECE_BYTES)

    async def write(self, data: bytes) -> None:
        """Write to standard input. Raise OSError if the server has stopped reading."""
        if self._writer is None:
            raise BrokenPipeError
        self._writer.write(data)
        await self._writer.drain()

    async def log_errors(self) -> None:
        """Log the lines of standard error until it ends."""
        remaining = b""
        while self._stderr is not None and (piece := await self._stderr.read(PIECE_BYTES)):
            *lines, remaining = (remaining + piece).split(b"\n")
            for line in lines:
                self._log_line(line)
            if len(remaining) > PIECE_BYTES:
                self._log_line(remaining)
                remaining = b""
        self._log_line(remaining)
        self._stderr_ended.set()

    async def wait_for_stderr(self) -> None:
        """Wait for the end of standard error, but not for long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await self._stderr_ended.wait()

    def _log_line(self, line: bytes) -> None:
        text = decode_text(line).strip()
        if text:
            self.last_words = cut(text, MAX_WORDS_CHARACTERS)
            log.info("%s: %s", self._name, text, extra={"action": "mcp_stderr", "mcp_server": self._name})

    def has_exited(self) -> bool:
        """Return True if the process has exited; where possible, without reaping it."""
        if self._process.returncode is not None:
            return True
        if not hasattr(os, "waitid"):  # macOS before Python 3.13
            return self._process.poll() is not None
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        except ChildProcessError:
            return True

    async def end(self) -> None:
        """End the process group: close its input, then send SIGTERM, then SIGKILL.

        If cancelled, send SIGKILL at once.
        """
        try:
            self._close_input()
            if not await self._exited_within(self.grace_seconds):
                self._signal(signal.SIGTERM)
                await self._exited_within(self.grace_seconds)
            self._signal(signal.SIGKILL)
            await self._exited_within(KILL_SECONDS)
        finally:
            # The process is not reaped yet, so the id of its group cannot have been reused.
            self._signal(signal.SIGKILL)
            self._release()

    def _close_input(self) -> None:
        # Abort instead of close: buffered data is no longer needed.
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.transport.abort()

    async def _exited_within(self, seconds: float) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not self.has_exited():
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _release(self) -> None:
        self._guard.release(self.pid)
        self._close_input()
        for transport in self._transports:
            transport.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            # Once `open` has made transports, these close the pipes.
            if pipe is not None and not self._transports:
                pipe.close()
        if self._process.poll() is None:
            # It got SIGKILL and ends as soon as the kernel lets it; a thread waits to reap it.
            threading.Thread(target=self._process.wait, name="weft-reaper", daemon=True).start()


def _inherited(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name in PASSED_ON or name.startswith("LC_")}
