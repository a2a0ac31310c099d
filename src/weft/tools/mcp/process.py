"""The program of an MCP server: started in a process group of its own, which ends as a whole.

Not the SDK's own way to start one: it gives the program a part of our environment that we do not choose,
its lines may be of any length, and a server that outlives `kill -9` of this process is nobody's concern.
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
from weft.tools.mcp.config import StdioServer

PASSED_ON = frozenset({"PATH", "HOME", "LANG", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "USER"})
"""What a server gets of weft's environment, with LC_*. Not the rest: keys and tokens live there."""

GRACE_SECONDS = 2.0
"""How long a server may take to end once its input is closed, and again once it got SIGTERM."""

KILL_SECONDS = 2.0
"""How long SIGKILL may take to show."""

POLL_SECONDS = 0.01

LAST_WORDS_SECONDS = 0.5
"""How long to read on standard error once standard output has ended: why it ended is often said there."""

PIECE_BYTES = 65536

MAX_WORDS_CHARACTERS = 300
"""How much of what a server says on standard error is repeated when it fails."""

log = logging.getLogger(__name__)


class GroupGuard(Protocol):
    """Ends process groups when this process is gone, however it went."""

    def guard(self, group: int) -> None:
        """Have the group killed when this process is gone."""
        ...

    def release(self, group: int) -> None:
        """Take that back."""
        ...


class NoGuard:
    """Leaves it to servers to see that their input has ended."""

    def guard(self, group: int) -> None: ...

    def release(self, group: int) -> None: ...


class ServerProcess:
    """A running server and everything it started that stays in its group."""

    def __init__(self, process: "subprocess.Popen[bytes]", name: str, guard: GroupGuard) -> None:
        self._process = process
        self._name = name
        self._guard = guard
        self.pid = process.pid
        self.grace_seconds = GRACE_SECONDS
        self.last_words = ""
        """The last line on standard error."""
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._errors: asyncio.StreamReader | None = None
        self._is_silent = asyncio.Event()
        self._transports: list[asyncio.BaseTransport] = []

    @classmethod
    def start(cls, server: StdioServer, environment: Mapping[str, str], guard: GroupGuard) -> "ServerProcess":
        """Start the program; raises OSError and ValueError as Popen does."""
        process = subprocess.Popen(
            [server.command, *server.args],
            env={**_passed_on(environment), **server.env},
            cwd=server.cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        guard.guard(process.pid)
        return cls(process, server.name, guard)

    async def open(self) -> None:
        """Connect its pipes to the event loop."""
        loop = asyncio.get_running_loop()
        self._reader = await self._reading(loop, self._process.stdout)
        self._errors = await self._reading(loop, self._process.stderr)
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.streams.FlowControlMixin(loop=loop), self._process.stdin
        )
        self._writer = asyncio.StreamWriter(transport, protocol, None, loop)

    async def _reading(self, loop: asyncio.AbstractEventLoop, pipe: object) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=PIECE_BYTES, loop=loop)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        self._transports.append(transport)
        return reader

    async def read(self) -> bytes:
        """What the server writes next; empty when it writes no more."""
        return b"" if self._reader is None else await self._reader.read(PIECE_BYTES)

    async def write(self, data: bytes) -> None:
        """Send it to the server; raises ConnectionError or OSError when it does not read any more."""
        if self._writer is None:
            raise BrokenPipeError
        self._writer.write(data)
        await self._writer.drain()

    async def log_errors(self) -> None:
        """Put what the server says on standard error into the log, line by line, until it says no more."""
        rest = b""
        while self._errors is not None and (piece := await self._errors.read(PIECE_BYTES)):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self._note(line)
            if len(rest) > PIECE_BYTES:
                self._note(rest)
                rest = b""
        self._note(rest)
        self._is_silent.set()

    async def hear_out(self) -> None:
        """Wait until it has said all on standard error, but not for long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await self._is_silent.wait()

    def _note(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").strip()
        if text:
            self.last_words = cut(text, MAX_WORDS_CHARACTERS)
            log.info("%s: %s", self._name, text, extra={"action": "mcp_stderr", "mcp_server": self._name})

    def has_exited(self) -> bool:
        """Whether the program has exited; where that can be seen, it is not reaped by it."""
        if self._process.returncode is not None:
            return True
        if not hasattr(os, "waitid"):  # macOS before Python 3.13
            return self._process.poll() is not None
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        except ChildProcessError:
            return True

    async def end(self) -> None:
        """End it and its group: its input is closed, then SIGTERM, then SIGKILL for whatever is left.

        Cancelled, it skips the waiting.
        """
        try:
            self._close_input()
            if not await self._exited_within(self.grace_seconds):
                self._signal(signal.SIGTERM)
                await self._exited_within(self.grace_seconds)
            self._signal(signal.SIGKILL)
            await self._exited_within(KILL_SECONDS)
        finally:
            # The program is not reaped yet: until then nobody else can have the id of its group.
            self._signal(signal.SIGKILL)
            self._let_go()

    def _close_input(self) -> None:
        """At once: what a server has not read by now, it need not read any more."""
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

    def _let_go(self) -> None:
        self._guard.release(self.pid)
        self._close_input()
        for transport in self._transports:
            transport.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if (
                pipe is not None and not self._transports
            ):  # it was never opened; else the transports close them
                pipe.close()
        if self._process.poll() is None:
            # It got SIGKILL and ends as soon as the kernel lets it; somebody must be there to reap it.
            threading.Thread(target=self._process.wait, name="weft-reaper", daemon=True).start()


def _passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name in PASSED_ON or name.startswith("LC_")}
