"""`weft` in processes that need not import it again: forks of one that has imported it and waits.

A fork is a process like any other: its own pid, session, folder, environment, streams and end. What it leaves
out is to start Python and to import weft, which is most of what a short command takes. So a test of imports,
or of what Python or weft reads while it starts, must not use one: `can_fork` says when that is so.
"""

import atexit
import functools
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

_SERVER = Path(__file__).with_name("weft_fork_server.py")

_READ_AT_START = ("PYTHON", "LANG", "LC_", "OMP_", "OTEL_")
"""How the variables begin that Python or weft reads before any command runs."""


def can_fork(environment: Mapping[str, str]) -> bool:
    """Whether a fork does with these variables what a new process would."""
    return _read_at_start(environment) == _read_at_start(os.environ)


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


class WeftForks:
    """The process that waits, as tests see it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, _SERVER, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )

    def run(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        cwd: str,
        stdin: bytes,
        seconds: float,
    ) -> tuple[int, bytes, bytes]:
        """Return the exit code, the output and the errors of a command; kill it when it takes too long."""
        request = {"arguments": arguments, "environment": dict(environment), "cwd": cwd}
        with ExitStack() as stack:
            (read_in, our_in), (our_out, write_out), (our_err, write_err) = (_pipe(stack) for _ in range(3))
            theirs = (read_in, write_out, write_err)
            pid = self._ask(request, [stream.fileno() for stream in theirs])
            for stream in theirs:
                stream.close()
            try:
                out, err = _exchange(our_in, stdin, (our_out, our_err), seconds)
            except BaseException:
                os.killpg(pid, signal.SIGKILL)
                self._ask({"wait": pid})
                raise
            return self._ask({"wait": pid}), out, err

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        cwd: str,
        stdout: int | IO[bytes],
        stderr: int | IO[bytes],
    ) -> "ForkedProcess":
        """Start a command that reads from a pipe, and writes where `subprocess.Popen` would let it."""
        request = {"arguments": arguments, "environment": dict(environment), "cwd": cwd}
        with ExitStack() as theirs:
            read_in, write_in = os.pipe()
            theirs.callback(os.close, read_in)
            our_in = os.fdopen(write_in, "wb")
            to_out, our_out = _target(theirs, stdout)
            to_err, our_err = (to_out, None) if stderr == subprocess.STDOUT else _target(theirs, stderr)
            pid = self._ask(request, [read_in, to_out, to_err])
        return ForkedProcess(self, pid, arguments, our_in, our_out, our_err)

    def status(self, pid: int) -> int | None:
        """How a process that was started has ended, as `os.waitpid` says it; None: it has not."""
        found = self._ask({"poll": pid})
        return None if found < 0 else found

    def _ask(self, request: Mapping[str, Any], streams: Sequence[int] = ()) -> int:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], streams)
            answer = self._socket.recv(64)
        assert answer, "the process that waits has ended"
        return int(answer)

    def close(self) -> None:
        """End the process that waits."""
        self._socket.close()
        self._process.wait()


class ForkedProcess(subprocess.Popen[bytes]):
    """A fork as `subprocess` shows a process; its parent, the process that waits, knows how it ended."""

    def __init__(
        self,
        forks: WeftForks,
        pid: int,
        arguments: Sequence[str],
        stdin: IO[bytes],
        stdout: IO[bytes] | None,
        stderr: IO[bytes] | None,
    ) -> None:
        # What Popen's own would set when it has started a process.
        self._forks = forks
        self.pid = pid
        self.args = ["weft", *arguments]
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.returncode = None
        self.text_mode = self.encoding = self.errors = None
        self._waitpid_lock = threading.Lock()
        self._input: bytes | None = None
        self._communication_started = False
        self._sigint_wait_secs = 0.25
        self._child_created = True

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if not wait_flags & os.WNOHANG:
            descriptor = os.pidfd_open(self.pid)
            try:
                select.select([descriptor], [], [])
            finally:
                os.close(descriptor)
        status = self._forks.status(self.pid)
        return (0, 0) if status is None else (self.pid, status)

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        with self._waitpid_lock:
            if self.returncode is None:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
        return self.returncode


@functools.cache
def weft_forks() -> WeftForks:
    """Those of this process; the process that waits ends with this one, however that ends."""
    forks = WeftForks()
    atexit.register(forks.close)
    return forks


def _pipe(stack: ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    reading, writing = os.pipe()
    return (
        stack.enter_context(os.fdopen(reading, "rb", buffering=0)),
        stack.enter_context(os.fdopen(writing, "wb", buffering=0)),
    )


def _target(stack: ExitStack, wanted: int | IO[bytes]) -> tuple[int, IO[bytes] | None]:
    """Where a process is to write, until the stack is closed, and our end of it if that is a pipe."""
    if wanted == subprocess.PIPE:
        reading, writing = os.pipe()
        stack.callback(os.close, writing)
        return writing, os.fdopen(reading, "rb")
    if wanted == subprocess.DEVNULL:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        stack.callback(os.close, nowhere)
        return nowhere, None
    return (wanted if isinstance(wanted, int) else wanted.fileno()), None


def _exchange(
    to: IO[bytes], text: bytes, sources: tuple[IO[bytes], IO[bytes]], seconds: float
) -> tuple[bytes, bytes]:
    """Read both sources until they end, while the text is written."""
    deadline = time.monotonic() + seconds
    got: dict[Any, list[bytes]] = {source: [] for source in sources}
    os.set_blocking(to.fileno(), False)
    with selectors.DefaultSelector() as selector:
        selector.register(to, selectors.EVENT_WRITE)
        for source in sources:
            selector.register(source, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(deadline - time.monotonic())
            if not ready and time.monotonic() >= deadline:
                raise TimeoutError(f"the command has not ended in {seconds} seconds")
            for key, _ in ready:
                if key.fileobj is to:
                    text = _sent(to, text)
                    is_over = not text
                else:
                    got[key.fileobj].append(os.read(key.fd, 1 << 16))
                    is_over = not got[key.fileobj][-1]
                if is_over:
                    selector.unregister(key.fileobj)
                    if key.fileobj is to:
                        to.close()
    out, err = (b"".join(got[source]) for source in sources)
    return out, err


def _sent(to: IO[bytes], text: bytes) -> bytes:
    """Write as much of the text as fits, and return what remains; nothing if nobody reads it."""
    try:
        return text[os.write(to.fileno(), text) :] if text else b""
    except BrokenPipeError:
        return b""
