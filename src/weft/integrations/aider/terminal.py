"""Runs interactive aider sessions: gives the terminal to aider and restores it afterwards."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from weft.aio import run_blocking
from weft.config.sections import CommandSettings
from weft.executors.command import environment_for
from weft.executors.protocol import ExecutionFailed, Work
from weft.integrations.aider.changes import WorktreeSnapshot
from weft.integrations.aider.command_line import (
    Scratch,
    interactive_argv_of,
    interactive_restrictions,
    variables_of,
)
from weft.integrations.aider.install import AiderProgram
from weft.integrations.aider.report import result_of
from weft.integrations.aider.request import AiderRequest, AiderResult
from weft.process.watchdog import watchdog

SANE = b"\x1b[0m\x1b[?25h\x1b[?2004l"
"""Escape codes that undo what a killed process may leave: colours, a hidden cursor, bracketed paste."""

END_SECONDS = 2.0
"""How many seconds to wait for the end of a session after SIGTERM, and again after SIGKILL."""

_terminal_lock = threading.Lock()
"""Held by the session that uses the terminal: two sessions would read each other's keys."""


async def run_interactive(
    request: AiderRequest,
    program: AiderProgram,
    scratch: Scratch,
    snapshot: WorktreeSnapshot,
    *,
    is_git: bool,
    work: Work,
) -> AiderResult:
    """Run a session with a person and return its result; raise ExecutionFailed, with the result in it."""
    terminal = require_terminal()
    scratch.fill(request, interactive_restrictions(request.prompt))
    started = time.monotonic()
    environment = environment_for(work, variables_of(request, scratch, has_terminal=True), CommandSettings())
    session = Session(
        interactive_argv_of(program, request, scratch, is_git=is_git), environment, request, terminal
    )
    code = None
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(request.timeout_seconds):
                code = await run_blocking(session.run, name="weft-aider")
    finally:
        await run_blocking(session.end, name="weft-aider")
    changed = await run_blocking(snapshot.changed, name="weft-aider")
    result = result_of("interactive", request, scratch, changed, code, started)
    if code is None:
        message = f"the aider session did not end within {request.timeout_seconds:g} s"
        raise ExecutionFailed(message, details=result.as_json())
    if code != 0:
        raise ExecutionFailed(f"aider exited with code {code}", details=result.as_json())
    return result


def require_terminal() -> int:
    """Return the descriptor of the terminal; raise a permanent ExecutionFailed if there is no terminal."""
    streams = (sys.stdin, sys.stdout)
    if any(stream is None or not stream.isatty() for stream in streams):
        raise ExecutionFailed(
            "an interactive aider needs a terminal: standard input and output must be a terminal "
            "(use aider_automatic without one)",
            is_permanent=True,
        )
    return sys.stdin.fileno()


class Session:
    """A process that has the terminal. `run` blocks; `end` may be called from another thread."""

    def __init__(
        self, argv: list[str], environment: dict[str, str], request: AiderRequest, terminal: int
    ) -> None:
        self._argv = argv
        self._environment = environment
        self._folder = str(request.folder)
        self._terminal = terminal
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._is_over = threading.Event()

    def run(self) -> int:
        """Run the process to its end, restore the terminal and return the exit code."""
        if not _terminal_lock.acquire(blocking=False):
            raise ExecutionFailed("another interactive aider is using the terminal")
        try:
            with Handover(self._terminal) as handover:
                process = self._start()
                try:
                    handover.give_to(process.pid)
                    return _wait(process, handover)
                finally:
                    watchdog.release(process.pid)
                    process.wait()
        except OSError as error:
            raise ExecutionFailed(f"aider cannot be started: {error.strerror or error}") from error
        finally:
            _terminal_lock.release()
            self._is_over.set()

    def end(self) -> None:
        """End the process if it still runs, with SIGTERM and then SIGKILL; wait END_SECONDS after each."""
        with self._lock:
            self._is_cancelled = True
            process = self._process
        if process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._is_over.is_set():
                return
            _signal(process.pid, number)
            _signal(process.pid, signal.SIGCONT)  # a stopped process handles signals only when it continues
            self._is_over.wait(END_SECONDS)

    def _start(self) -> "subprocess.Popen[bytes]":
        with self._lock:
            if self._is_cancelled:
                raise ExecutionFailed("the session was cancelled before it started")
            self._process = subprocess.Popen(
                self._argv, env=self._environment, cwd=self._folder, process_group=0
            )
        watchdog.guard(self._process.pid)
        return self._process


class Handover:
    """Gives the terminal to a process group, and on exit returns it to weft with its earlier settings."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._settings: list[Any] = []
        self._own_group: int | None = None

    def __enter__(self) -> Self:
        self._settings = termios.tcgetattr(self._terminal)
        # Fails if the terminal is not the controlling terminal of this process; then nothing is handed over.
        with contextlib.suppress(OSError):
            self._own_group = os.tcgetpgrp(self._terminal)
        return self

    def give_to(self, group: int) -> None:
        """Make a process group the foreground group; continue it if it was stopped by reading before that."""
        if self._own_group is not None:
            with _blocked_sigttou():
                os.tcsetpgrp(self._terminal, group)
        _signal(group, signal.SIGCONT)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError, termios.error), _blocked_sigttou():  # the terminal may be gone
            if self._own_group is not None:
                os.tcsetpgrp(self._terminal, self._own_group)
            termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._settings)
            os.write(self._terminal, SANE)


@contextlib.contextmanager
def _blocked_sigttou() -> Iterator[None]:
    """Block SIGTTOU, which would stop this process when it changes the terminal from the background."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait(process: "subprocess.Popen[bytes]", handover: Handover) -> int:
    """Wait for the exit code. Continue a process stopped by Ctrl-Z, because no shell could resume it."""
    while hasattr(os, "waitid"):
        found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
        if found is None or found.si_code not in (os.CLD_STOPPED, os.CLD_TRAPPED):
            break
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)  # consume the event, or it is reported again
        handover.give_to(process.pid)
    watchdog.release(process.pid)  # before it is reaped and its id can be reused
    return process.wait()


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
