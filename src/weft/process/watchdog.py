"""Kills child processes if weft itself is killed: `kill -9` gives it no time to do so.

A small shell, one per weft process and started with its first command, reads a pipe that nobody else can
write to. It receives every process group that starts and ends. When the weft process ends for any reason, the
pipe is closed; the shell then kills the remaining groups and exits. A command costs two short writes.

PR_SET_PDEATHSIG is not used: it is tied to the thread that started the child, and spares its descendants.
"""

import atexit
import contextlib
import logging
import os
import select
import subprocess
import threading

SHELL = "/bin/sh"

SCRIPT = """
trap '' HUP INT QUIT TERM
groups=' '
while read -r sign group; do
    case $sign in
        +) groups="$groups$group " ;;
        -) case $groups in *" $group "*) groups="${groups%% "$group" *} ${groups#* "$group" }" ;; esac ;;
    esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
"""
"""Uses only shell built-ins: nothing can be missing, and it starts in a millisecond."""

EXIT_SECONDS = 1.0
"""How long to wait for the shell to exit; it normally takes a millisecond."""

log = logging.getLogger(__name__)


class Watchdog:
    """The process groups that must not outlive this process."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._shell: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._lock = threading.Lock()  # commands may run in event loops of several threads
        os.register_at_fork(after_in_child=self._forget_all)

    @property
    def pid(self) -> int | None:
        """Return the process id of the shell, if it runs."""
        return None if self._shell is None else self._shell.pid

    def guard(self, group: int) -> None:
        """Have the group killed when this process ends."""
        with self._lock:
            if group not in self._groups:
                self._groups.add(group)
                self._send(f"+ {group}\n")

    def release(self, group: int) -> None:
        """Stop guarding the group. Call it before the id can be reused, or another group would be killed."""
        with self._lock:
            if group in self._groups:
                self._groups.remove(group)
                self._send(f"- {group}\n")

    def close(self) -> None:
        """End the shell, which kills the groups that are still guarded."""
        with self._lock:
            self._end_shell()
            self._groups.clear()

    def _send(self, line: str) -> None:
        if self._shell is not None:
            try:
                os.write(self._pipe, line.encode())  # atomic: shorter than PIPE_BUF
                return
            except (BrokenPipeError, BlockingIOError):
                # The shell was killed or stopped, and its list is out of date: replace it.
                self._shell.kill()
                self._end_shell()
        if self._groups:
            self._start()

    def _start(self) -> None:
        """Start a shell with all current groups."""
        theirs = ours = -1
        try:
            theirs, ours = os.pipe()
            known = "".join(f"+ {group}\n" for group in self._groups).encode()
            # Written before the shell starts: if weft died before a later write, the groups would stay alive.
            early = known[: select.PIPE_BUF]  # fits into every pipe
            os.write(ours, early)
            shell = subprocess.Popen(
                [SHELL, "-c", SCRIPT, "weft-watchdog"],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,  # ignores Ctrl-C and hang-up of the terminal
            )
        except OSError as error:
            # Commands also run without a watchdog; the next command tries to start one again.
            log.warning("no watchdog: %s", error, extra={"action": "watchdog_failed"})
            if ours != -1:
                os.close(ours)
            return
        finally:
            if theirs != -1:
                os.close(theirs)
        self._pipe, self._shell = ours, shell
        with contextlib.suppress(BrokenPipeError):  # already dead: the next write notices
            os.write(ours, known[len(early) :])
        os.set_blocking(ours, False)  # a stopped shell must not block us

    def _end_shell(self) -> None:
        if self._shell is not None:
            os.close(self._pipe)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._shell.wait(EXIT_SECONDS)
            self._shell = None

    def _forget_all(self) -> None:
        """Reset after a fork: the processes belong to the parent, and its pipe must not be kept open here."""
        self._lock = threading.Lock()
        if self._shell is not None:
            os.close(self._pipe)
            self._shell.returncode = 0  # not a child of the fork: no waiting, and no ResourceWarning
            self._shell = None
        self._groups.clear()


watchdog = Watchdog()
"""The watchdog of this process."""

atexit.register(watchdog.close)
