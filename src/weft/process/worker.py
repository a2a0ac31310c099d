"""Python child processes that answer requests of their parent, one at a time.

Messages are bytes on a socket, the child's standard input. It ends with its socket: it needs no watchdog.
"""

import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

END_SECONDS = 1.0
"""How long a child process may take to end after its socket is closed."""

_LENGTH_BYTES = 4


class _Channel:
    """Messages on a socket, each preceded by its length."""

    def __init__(self, connection: socket.socket, timeout_seconds: float | None) -> None:
        connection.settimeout(timeout_seconds)
        self._connection = connection
        self._stream = connection.makefile("rb")

    def send(self, message: bytes) -> None:
        self._connection.sendall(len(message).to_bytes(_LENGTH_BYTES, "big") + message)

    def receive(self) -> bytes | None:
        """Return the next message; None for an empty message, or at the end of the stream."""
        size = int.from_bytes(self._stream.read(_LENGTH_BYTES), "big")
        message = self._stream.read(size)
        return message if size and len(message) == size else None

    def close(self) -> None:
        self._stream.close()
        self._connection.close()


class ChildProcess:
    """A Python child process that answers messages of its parent, one at a time: its code calls `serve`."""

    def __init__(self, code: str, *, timeout_seconds: float | None = None, stderr: int | None = None) -> None:
        self._code = code
        self._timeout_seconds = timeout_seconds
        self._stderr = stderr
        self._running: tuple[subprocess.Popen[bytes], _Channel] | None = None

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def start(self) -> bool:
        """Start the process without the untrusted working folder in its module path; False if that fails."""
        path = [part for part in sys.path if part]
        command = [sys.executable, "-P", "-S", "-c", f"import sys\nsys.path[:] = {path!r}\n{self._code}"]
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = subprocess.Popen(
                    command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=self._stderr
                )
            except OSError:
                ours.close()
                return False
        self._running = process, _Channel(ours, self._timeout_seconds)
        return True

    def request(self, message: bytes) -> bytes | None:
        """Return the response; None if the process does not run, has ended or takes too long."""
        if self._running is None:
            return None
        _, channel = self._running
        try:
            channel.send(message)
            return channel.receive()
        except OSError:
            return None

    def end(self) -> int:
        """End the process. Return its exit code: not 0 if a request killed it; 0 if it does not run."""
        if self._running is None:
            return 0
        (process, channel), self._running = self._running, None
        channel.close()
        try:
            return process.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return 1


def serve(answer: Callable[[bytes], bytes], idle_seconds: float | None = None) -> None:
    """Answer requests of the parent process until it ends, or until none arrives for `idle_seconds`."""
    # Ctrl-C is handled by the parent process, which closes the socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = _Channel(socket.socket(fileno=0), idle_seconds)
    with suppress(OSError):  # the time is over, or the parent has closed the socket
        while (message := channel.receive()) is not None:
            channel.send(answer(message))
