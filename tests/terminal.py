"""A program on a real terminal, as a person sees and types it."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import TracebackType
from typing import Self

SECONDS = 30
"""How long anything may take; nothing waits that long unless it is wrong."""

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""What moves the cursor and sets colours."""

_RUN = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "weft", *sys.argv[1:]])
"""
"""Runs weft with the terminal as its own, so that Ctrl-C is a signal."""


class Terminal:
    """Runs `weft` on a pseudo-terminal."""

    def __init__(self, *arguments: str, folder: Path, **environment: str) -> None:
        self.end, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        # No questions for the cursor's position: nobody here would answer them.
        settings = {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "XDG_STATE_HOME": str(folder / "state")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _RUN, *arguments],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            cwd=folder,
            env={**os.environ, **settings, **environment},
            start_new_session=True,
        )
        os.close(inner)
        self.seen = ""
        self.patience_seconds: float = SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.end)

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.end, text.encode())

    def expect(self, text: str) -> None:
        """Wait until a text is shown after what was expected before."""
        deadline = time.monotonic() + self.patience_seconds
        while text not in self.seen:
            shown = self._read(deadline)
            if not shown:
                raise AssertionError(f"{text!r} was not shown; this was: {self.seen!r}")
            self.seen = _ESCAPES.sub("", self.seen + shown)  # an escape may come in two parts
        self.seen = self.seen.partition(text)[2]

    def exit_code(self) -> int:
        """Wait for the end."""
        deadline = time.monotonic() + self.patience_seconds
        while shown := self._read(deadline):  # else it may wait for us to read
            self.seen += shown
        return self.process.wait(max(0.0, deadline - time.monotonic()))

    def _read(self, deadline: float) -> str:
        """Return what is shown next, or nothing at the end or the deadline."""
        ready, _, _ = select.select([self.end], [], [], max(0.0, deadline - time.monotonic()))
        try:
            return os.read(self.end, 65536).decode("utf-8", "replace") if ready else ""
        except OSError:  # the other end is closed
            return ""
