"""A program in a process group of its own, which ends as a whole.

Not asyncio's subprocesses: they reap the child as soon as it exits, which frees its process id while we may
still have to signal the group of that id; some versions of Python let their `wait()` hang as long as any
grandchild holds a pipe open; and one that is cancelled while it starts kills the child alone. Here the child
is reaped when its output has been read, and the group is looked at at once: as long as it has a member, the
kernel gives its id to nobody else. A watchdog ends the group if this process is killed meanwhile.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from weft.process.pipes import InputPipe, OutputPipe
from weft.process.watchdog import watchdog

DRAIN_SECONDS = 1.0
"""How long the pipes may stay open after the program exited: `cmd > >(tee log)` still has output to come."""

POLL_SECONDS = 0.02
"""How often to look whether the rest of the group has ended: they are not our children, nothing tells us."""

KILL_SECONDS = 2.0
"""How long SIGKILL may take to show. Only a process stuck in the kernel takes longer; nothing helps it."""

_CAN_LOOK = hasattr(os, "waitid")
"""Whether we can see that a child has exited before we reap it; on macOS only from Python 3.13 on. Otherwise
the watchdog hears a moment late that a group has ended."""


class ProcessGroup:
    """A running program and everything it started that stays in its group."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", *, stdin: bytes | None, max_output_bytes: int
    ) -> None:
        self._process = process
        self.pid = process.pid
        self.stdout = OutputPipe(_there(process.stdout), max_output_bytes)
        self.stderr = OutputPipe(_there(process.stderr), max_output_bytes)
        self._stdin = None if stdin is None else InputPipe(_there(process.stdin), stdin)
        self._exited = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._pidfd: int | None = None
        self._watch()

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        executable: str,
        env: Mapping[str, str],
        cwd: str | None,
        stdin: bytes | None,
        max_output_bytes: int,
    ) -> "ProcessGroup":
        """Start a program in a new session, with pipes; raises OSError and ValueError as Popen does."""
        process = subprocess.Popen(
            argv,
            executable=executable,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        watchdog.guard(process.pid)
        return cls(process, stdin=stdin, max_output_bytes=max_output_bytes)

    async def wait(self) -> int:
        """The exit code (-N when signal N ended it), once the program has exited and its output was read."""
        await self._exited.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await self.stdout.is_closed.wait()
                await self.stderr.is_closed.wait()
        watchdog.release(self.pid)
        return self._process.wait()

    async def end(self, grace_seconds: float) -> None:
        """End every process of the group: SIGTERM, and SIGKILL for those still there after a grace time.

        It returns with the program reaped and the pipes closed. Cancelled, it skips the grace time.
        """
        try:
            if self._is_alive():
                self._signal(signal.SIGTERM)
                self._signal(signal.SIGCONT)  # A stopped process gets its SIGTERM only when it goes on.
                await self._gone_within(grace_seconds)
            if self._is_alive():
                self._signal(signal.SIGKILL)
                await self._gone_within(KILL_SECONDS)
        finally:
            if self._is_alive():
                self._signal(signal.SIGKILL)
            self._close()

    async def _gone_within(self, seconds: float) -> None:
        deadline = self._loop.time() + seconds
        while self._is_alive() and self._loop.time() < deadline:  # noqa: ASYNC110 - nothing sets an event
            await asyncio.sleep(POLL_SECONDS)

    def _is_alive(self) -> bool:
        """Whether a process of the group runs; reaps the program when it has exited."""
        if not self._is_reaped():
            return True
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        if not _has_living_member(self.pid):
            return False
        watchdog.guard(self.pid)  # Again: the program has been reaped, but not what it left behind.
        return True

    def _is_reaped(self) -> bool:
        """Whether the program has exited; then it is reaped, but not before the watchdog is told."""
        if self._process.returncode is None and _CAN_LOOK and _has_exited(self.pid):
            watchdog.release(self.pid)
        return self._process.poll() is not None

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _close(self) -> None:
        """Let go of the pipes and of the watch; see to it that the program is reaped."""
        watchdog.release(self.pid)  # What is left got SIGKILL.
        self.stdout.close()
        self.stderr.close()
        if self._stdin is not None:
            self._stdin.close()
        self._unwatch()
        if self._process.poll() is None:
            # It got SIGKILL and ends as soon as the kernel lets it; somebody must be there to reap it.
            threading.Thread(target=self._process.wait, name="weft-reaper", daemon=True).start()

    def _watch(self) -> None:
        """Set `_exited` when the program exits."""
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            # No Linux, an old one, or no file descriptor left.
            threading.Thread(target=self._wait_in_thread, name="weft-child", daemon=True).start()
        else:
            self._loop.add_reader(self._pidfd, self._on_exit)

    def _on_exit(self) -> None:
        self._unwatch()  # At once: it stays readable, and would keep the event loop spinning.
        self._exited.set()

    def _unwatch(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _wait_in_thread(self) -> None:
        if _CAN_LOOK:
            _has_exited(self.pid, is_patient=True)
        else:
            self._process.wait()
        with contextlib.suppress(RuntimeError):  # The loop is closed: nobody waits any more.
            self._loop.call_soon_threadsafe(self._exited.set)


def _there(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise RuntimeError("the process was started without this pipe")
    return pipe


def _has_exited(pid: int, *, is_patient: bool = False) -> bool:
    """Whether a child has exited, which stays to be reaped; a patient look waits for that."""
    options = os.WEXITED | os.WNOWAIT | (0 if is_patient else os.WNOHANG)
    try:
        return os.waitid(os.P_PID, pid, options) is not None
    except ChildProcessError:
        return True  # It has been reaped.


def _has_living_member(group: int) -> bool:
    """Whether a process of the group is more than a zombie that its new parent has not reaped yet."""
    proc = Path("/proc")
    if not (proc / "self" / "stat").exists():
        return True  # No Linux: the signal found somebody, that is all there is to know.
    for entry in proc.iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            # pid (name) state parent group ...; a name may hold anything, brackets and blanks too.
            state, _, member_of = (
                (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[:3]
            )
        except (OSError, ValueError):
            continue  # It ended while we looked.
        if int(member_of) == group and state not in "ZX":
            return True
    return False
