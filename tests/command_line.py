"""The `weft` command as a person runs it: a process of its own."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import psutil

from tests.weft_forks import can_fork, weft_forks

Process = subprocess.Popen[bytes]


class Ran(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def weft(
    *arguments: str | Path,
    db: str | None,
    stdin: str | bytes = b"",
    cwd: Path | str | None = None,
    **environment: str,
) -> Ran:
    """Run `weft` on a store: a fork of a process that has imported it, where that makes no difference."""
    variables = environment_of(db, **environment)
    given = stdin.encode() if isinstance(stdin, str) else stdin
    if can_fork(variables):
        folder = str(cwd or Path.cwd())
        words = [str(argument) for argument in arguments]
        code, out, err = weft_forks().run(words, variables, cwd=folder, stdin=given, seconds=120)
        return Ran(code, out.decode(), err.decode())
    return fresh_weft(*arguments, db=db, stdin=stdin, cwd=cwd, **environment)


def fresh_weft(
    *arguments: str | Path,
    db: str | None,
    stdin: str | bytes = b"",
    cwd: Path | str | None = None,
    **environment: str,
) -> Ran:
    """Run `weft` on a store in a Python of its own, which has imported nothing."""
    with _process(arguments, environment_of(db, **environment), cwd=cwd, may_fork=False) as process:
        out, err = process.communicate(stdin.encode() if isinstance(stdin, str) else stdin, timeout=120)
        return Ran(process.returncode, out.decode(), err.decode())


@contextmanager
def started(
    *arguments: str | Path,
    db: str,
    stdin: str = "",
    stdout: int | IO[bytes] = subprocess.PIPE,
    stderr: int | IO[bytes] = subprocess.PIPE,
    cwd: Path | None = None,
    module: str = "weft",
    **environment: str,
) -> Iterator[Process]:
    """`weft` on a store, running, a fork as with `weft`; it is gone when the block is left.

    `stdin` is as short as a pipe is.
    """
    variables = environment_of(db, **environment)
    with _process(arguments, variables, stdout=stdout, stderr=stderr, cwd=cwd, module=module) as process:
        assert process.stdin is not None
        process.stdin.write(stdin.encode())
        process.stdin.close()
        process.stdin = None
        yield process


@contextmanager
def _process(
    arguments: Sequence[str | Path],
    environment: dict[str, str],
    *,
    stdout: int | IO[bytes] = subprocess.PIPE,
    stderr: int | IO[bytes] = subprocess.PIPE,
    cwd: Path | str | None = None,
    module: str = "weft",
    may_fork: bool = True,
) -> Iterator[Process]:
    process: Process
    if may_fork and module == "weft" and can_fork(environment):
        words = [str(argument) for argument in arguments]
        folder = str(cwd or Path.cwd())
        process = weft_forks().start(words, environment, cwd=folder, stdout=stdout, stderr=stderr)
    else:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=environment,
            start_new_session=True,
        )
    with ended(process):
        yield process


@contextmanager
def ended(process: Process) -> Iterator[None]:
    """End the process, which leads a group, and all of its group when the block is left."""
    try:
        yield
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


def environment_of(db: str | None, **added: str) -> dict[str, str]:
    """Our environment with no other setting of weft's than these; without a store it is the folder's own."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    return {**clean, **({} if db is None else {"WEFT_DB": db}), **added}


def wait_for(condition: Callable[[], bool], *, seconds: float = 60.0) -> None:
    """Wait until a condition holds in another process, which has no other way to tell us."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def catches_sigterm(process: Process) -> bool:
    """Return whether a process has a handler of its own for SIGTERM by now."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    (caught,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def read_until(pipe: IO[bytes] | None, text: str) -> str:
    """Read what a process prints, up to the line that contains the text."""
    assert pipe is not None
    said = ""
    while text not in said:
        line = pipe.readline()
        assert line, f"it ended without saying {text!r}, but: {said}"
        said += line.decode()
    return said


@contextmanager
def on_terminal(*arguments: str | Path, db: str) -> Iterator[tuple[Process, int]]:
    """`weft` on a terminal of its own, and our end of that terminal."""
    ours, terminal = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "weft", *map(str, arguments)],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=environment_of(db, TERM="xterm-256color", COLUMNS="120"),
            start_new_session=True,
        )
    finally:
        os.close(terminal)
    with ended(process):
        try:
            yield process, ours
        finally:
            with suppress(OSError):  # the test has closed it
                os.close(ours)


def shown_on(terminal: int) -> str:
    """Everything that is shown on a terminal until its process ends."""
    shown = b""
    while True:
        ready, _, _ = select.select([terminal], [], [], 60)
        try:
            piece = os.read(terminal, 65536) if ready else b""
        except OSError:  # the terminal is gone with its process
            piece = b""
        if not piece:
            return shown.decode("utf-8", "replace")
        shown += piece


def is_gone(pid: int) -> bool:
    """Whether a process has ended, also when nobody has asked how yet."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
