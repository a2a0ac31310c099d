"""`weft` in processes that need not import it again: forks of one that has imported it and waits.

A fork is a process like any other: its own pid, session, folder, environment, streams and end. What it leaves
out is to start Python and to import weft, which is most of what a short command takes. So a test of imports,
or of what Python or weft reads while it starts, must not use one: `can_fork` says when that is so.
"""

import atexit
import functools
import json
import os
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
        """The exit code, the output and the errors of a command; it is killed when it takes too long."""
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


def _exchange(
    to: IO[bytes], text: bytes, sources: tuple[IO[bytes], IO[bytes]], seconds: float
) -> tuple[bytes, bytes]:
    """What comes from both sources until they end, while the text goes where it is read."""
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
    """What remains of the text when as much is written as fits; nothing when nobody reads it."""
    try:
        return text[os.write(to.fileno(), text) :] if text else b""
    except BrokenPipeError:
        return b""
