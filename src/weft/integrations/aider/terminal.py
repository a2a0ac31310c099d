"""Runs interactive aider sessions: gives the terminal to aider and restores it afterwards."""

import contextlib
import os
import signal
import sys
import termios
import threading
from collections.abc import Iterator, Mapping, Sequence

from weft.aio import run_blocking
from weft.executors.protocol import ExecutionFailed, permanent_failure
from weft.process.group import ProcessGroup, signal_group, start_process

SANE = b"\x1b[0m\x1b[?25h\x1b[?2004l"
"""Escape codes that undo what a killed process may leave: colours, a hidden cursor, bracketed paste."""

END_SECONDS = 2.0
"""How many seconds to wait for the end of a session after SIGTERM."""

_terminal_lock = threading.Lock()
"""Held by the session that uses the terminal: two sessions would read each other's keys."""


def require_terminal() -> int:
    """Return the descriptor of the terminal; raise a permanent ExecutionFailed if there is no terminal."""
    streams = (sys.stdin, sys.stdout)
    if any(stream is None or not stream.isatty() for stream in streams):
        raise permanent_failure(
            "an interactive aider needs a terminal: standard input and output must be a terminal "
            "(use aider_automatic without one)"
        )
    return sys.stdin.fileno()


async def run_in_terminal(
    argv: Sequence[str], env: Mapping[str, str], cwd: str, timeout_seconds: float | None
) -> int | None:
    """Run a process that has the terminal. Return its exit code, or None if it timed out."""
    if not _terminal_lock.acquire(blocking=False):
        raise ExecutionFailed("another interactive aider is using the terminal")
    try:
        handover = Handover(require_terminal())
        try:
            process = start_process(argv, env=env, cwd=cwd, stdio="terminal")
            # Continued after Ctrl-Z, because no shell could resume it.
            group = ProcessGroup(process, on_stop=lambda: handover.give_to(process.pid))
            handover.give_to(group.pid)
            return await group.finish(timeout_seconds, lambda: END_SECONDS)
        finally:
            await run_blocking(handover.restore, name="weft-aider")  # blocks while the output is paused
    finally:
        _terminal_lock.release()


class Handover:
    """Gives the terminal to a process group, and returns it to weft with its earlier settings."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._settings = termios.tcgetattr(terminal)
        self._own_group: int | None = None
        # Fails if the terminal is not the controlling terminal of this process; then nothing is handed over.
        with contextlib.suppress(OSError):
            self._own_group = os.tcgetpgrp(terminal)

    def give_to(self, group: int) -> None:
        """Make a process group the foreground group; continue it if it was stopped by reading before that."""
        if self._own_group is not None:
            with contextlib.suppress(OSError), _blocked_sigttou():  # the group has ended already
                os.tcsetpgrp(self._terminal, group)
        signal_group(group, signal.SIGCONT)

    def restore(self) -> None:
        own_group, self._own_group = self._own_group, None  # nothing is handed over any more
        with contextlib.suppress(OSError, termios.error), _blocked_sigttou():  # the terminal may be gone
            if own_group is not None:
                os.tcsetpgrp(self._terminal, own_group)
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
