"""A child process in its own process group, which ends as a whole.

asyncio's subprocesses are not used. They reap the child as soon as it exits, which frees its process id
while the group may still have to be signalled. In some versions of Python their `wait()` hangs while a
grandchild holds a pipe open, and a cancellation during the start kills only the child. Here the child is
reaped after its output was read, and the group is checked immediately: as long as the group has a member,
the kernel does not reuse its id. A watchdog kills the group if this process is killed meanwhile.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Literal

from weft.limits import decode_text
from weft.process.pipes import InputPipe, OutputPipe, ReadPipe
from weft.process.watchdog import watchdog

DRAIN_SECONDS = 1.0
"""How long the pipes may stay open after the process exited: `cmd > >(tee log)` still writes output."""

POLL_SECONDS = 0.02
"""Interval between checks whether the group is empty: the end of a grandchild gives us no event."""

KILL_SECONDS = 2.0
"""How long SIGKILL may take. Only a process stuck in the kernel takes longer."""

_HAS_WAITID = hasattr(os, "waitid")
"""Whether an exited child can be detected before it is reaped; on macOS only from Python 3.13 on. Otherwise
the watchdog learns a moment too late that a group has ended."""


def start_process(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None = None,
    executable: str | None = None,
    stdio: Literal["pipes", "output", "terminal"] = "pipes",
) -> "subprocess.Popen[bytes]":
    """Start an executable in a group that the watchdog guards; raise OSError and ValueError as Popen does.

    `stdio` gives it three pipes, only those of its output, or the terminal of this process.
    """
    pipe = None if stdio == "terminal" else subprocess.PIPE
    process = subprocess.Popen(
        argv,
        executable=executable,
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL if stdio == "output" else pipe,
        stdout=pipe,
        stderr=pipe,
        # A session of its own has no terminal, and no Ctrl-C.
        start_new_session=stdio != "terminal",
        process_group=0 if stdio == "terminal" else None,
    )
    watchdog.guard(process.pid)
    return process


def run_captured(
    argv: Sequence[str], *, env: Mapping[str, str], timeout_seconds: float | None = None
) -> "subprocess.CompletedProcess[bytes]":
    """Run a short command to its end, blocking; raise OSError and TimeoutExpired as `subprocess.run` does.

    At the time limit its whole group is killed; the error has the output so far.
    """
    with start_process(argv, env=env, stdio="output") as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout_seconds)
        finally:
            if process.returncode is None:
                signal_group(process.pid, signal.SIGKILL)
            watchdog.release(process.pid)
    return subprocess.CompletedProcess(argv, process.returncode, stdout, stderr)


def signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


class ProcessGroup:
    """A running child process, and its descendants that stay in its group."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        *,
        outputs: Sequence[ReadPipe] = (),
        stdin: InputPipe | None = None,
        on_stop: Callable[[], None] | None = None,
    ) -> None:
        """Watch a process of `start_process`; `on_stop` is called in a thread when Ctrl-Z has stopped it."""
        self._process = process
        self.pid = process.pid
        self._outputs = outputs
        self._stdin = stdin
        self._on_stop = on_stop
        self._exited = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._pidfd: int | None = None
        self._watch()

    async def wait(self) -> int:
        """Return the exit code (-N for signal N), once the process has exited and its output was read."""
        await self._exited.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                for output in self._outputs:
                    await output.is_closed.wait()
        watchdog.release(self.pid)
        return self._process.wait()

    async def finish(self, timeout_seconds: float | None, grace: Callable[[], float]) -> int | None:
        """Return the exit code, or None at the time limit, and end the whole group, also when cancelled."""
        code = None
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_seconds):
                    code = await self.wait()
        finally:
            # Also the processes that the child left running: a finished task holds nothing.
            await self.end(grace())
        return code

    async def end(self, grace_seconds: float) -> None:
        """End every process of the group: SIGTERM, then SIGKILL after the grace time.

        On return the child is reaped and the pipes are closed. A cancellation skips the grace time.
        """
        try:
            await self._before_signals(grace_seconds)
            if self._is_alive():
                signal_group(self.pid, signal.SIGTERM)
                signal_group(
                    self.pid, signal.SIGCONT
                )  # A stopped process handles SIGTERM only after SIGCONT.
                await self._wait_until_gone(grace_seconds)
            if self._is_alive():
                signal_group(self.pid, signal.SIGKILL)
                await self._wait_until_gone(KILL_SECONDS)
        finally:
            if self._is_alive():
                signal_group(self.pid, signal.SIGKILL)
            self._close()

    async def _before_signals(self, grace_seconds: float) -> None:
        """Ask the process to end without a signal; for subclasses."""

    async def _wait_until_gone(self, seconds: float) -> None:
        deadline = self._loop.time() + seconds
        while self._is_alive() and self._loop.time() < deadline:  # noqa: ASYNC110 - nothing sets an event
            await asyncio.sleep(POLL_SECONDS)

    def _is_alive(self) -> bool:
        """Return whether a process of the group runs; reap the child if it has exited."""
        if not self._is_reaped():
            return True
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        if not _has_living_member(self.pid):
            return False
        watchdog.guard(self.pid)  # Again: the child has been reaped, but not its descendants.
        return True

    def _is_reaped(self) -> bool:
        """Return whether the child has exited; reap it, after releasing the group from the watchdog."""
        if self._process.returncode is None and _HAS_WAITID and _has_exited(self.pid):
            watchdog.release(self.pid)
        return self._process.poll() is not None

    def _close(self) -> None:
        """Close the pipes, stop watching, and make sure that the child is reaped."""
        watchdog.release(self.pid)  # The remaining processes got SIGKILL.
        for pipe in (*self._outputs, self._stdin):
            if pipe is not None:
                pipe.close()
        self._unwatch()
        if self._process.poll() is None:
            # It got SIGKILL and will end; a thread waits to reap it.
            threading.Thread(target=self._process.wait, name="weft-reaper", daemon=True).start()

    def _watch(self) -> None:
        """Set `_exited` when the child exits."""
        with contextlib.suppress(AttributeError, OSError):
            # Not on Linux, an old kernel, or no free file descriptor: a thread waits instead.
            if self._on_stop is None:  # of a stop, a pidfd tells nothing
                self._pidfd = os.pidfd_open(self.pid)
                self._loop.add_reader(self._pidfd, self._on_exit)
                return
        threading.Thread(target=self._wait_in_thread, name="weft-child", daemon=True).start()

    def _on_exit(self) -> None:
        self._unwatch()  # Immediately: the pidfd stays readable, and the event loop would spin.
        self._exited.set()

    def _unwatch(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _wait_in_thread(self) -> None:
        if _HAS_WAITID:
            while self._on_stop is not None and _has_stopped(self.pid):
                self._on_stop()
            _has_exited(self.pid, is_patient=True)
        else:
            self._process.wait()
        with contextlib.suppress(RuntimeError):  # The loop is closed: nobody waits any more.
            self._loop.call_soon_threadsafe(self._exited.set)


class CapturedGroup(ProcessGroup):
    """A child process whose output is kept, up to a limit."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        max_output_bytes: int,
        executable: str | None = None,
        cwd: str | None = None,
        stdin: bytes | None = None,
    ) -> None:
        """Start an executable; raise OSError and ValueError as Popen does."""
        stdio: Literal["pipes", "output"] = "output" if stdin is None else "pipes"
        process = start_process(argv, env=env, cwd=cwd, executable=executable, stdio=stdio)
        self.stdout = OutputPipe(require_pipe(process.stdout), max_output_bytes)
        self.stderr = OutputPipe(require_pipe(process.stderr), max_output_bytes)
        source = None if stdin is None else InputPipe(require_pipe(process.stdin), stdin)
        super().__init__(process, outputs=(self.stdout, self.stderr), stdin=source)


def require_pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise RuntimeError("the process was started without this pipe")
    return pipe


def _has_stopped(pid: int) -> bool:
    """Block until a child exits or stops; return whether it stopped."""
    try:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
        if found is None or found.si_code not in (os.CLD_STOPPED, os.CLD_TRAPPED):
            return False
        os.waitid(os.P_PID, pid, os.WSTOPPED)  # consume the event, or it is reported again
    except ChildProcessError:
        return False  # It has been reaped.
    return True


def _has_exited(pid: int, *, is_patient: bool = False) -> bool:
    """Return whether a child has exited, without reaping it; with `is_patient`, block until it has."""
    options = os.WEXITED | os.WNOWAIT | (0 if is_patient else os.WNOHANG)
    try:
        return os.waitid(os.P_PID, pid, options) is not None
    except ChildProcessError:
        return True  # It has been reaped.


def _has_living_member(group: int) -> bool:
    """Return whether the group has a process that is not a zombie waiting for its new parent."""
    proc = Path("/proc")
    if not (proc / "self" / "stat").exists():
        return True  # Not Linux: the signal found a process; nothing else is known.
    for entry in proc.iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            # pid (name) state parent group ...; a name may contain anything, also brackets and blanks.
            state, _, member_of = decode_text((entry / "stat").read_bytes()).rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue  # It ended meanwhile.
        if int(member_of) == group and state not in "ZX":
            return True
    return False
