"""What ends the programs of a process that was killed: `kill -9` gives it no time to do so itself.

A small shell, one for each process and started with its first command, reads a pipe that nobody else can
write to. It is told of every process group that begins and ends. When the process is gone, however it went,
the pipe ends; the shell then kills the groups that are left, and ends too. A command costs two short writes.

Not PR_SET_PDEATHSIG: it is tied to the thread that started the program, and spares what the program started.
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
"""Shell words only, no program: nothing can be missing, and it takes a millisecond to start."""

EXIT_SECONDS = 1.0
"""How long to wait for the shell when the process ends well; it takes a millisecond."""

log = logging.getLogger(__name__)


class Watchdog:
    """The groups that must not outlive this process."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._shell: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._lock = threading.Lock()  # event loops of several threads may run commands
        os.register_at_fork(after_in_child=self._forget_all)

    @property
    def pid(self) -> int | None:
        """The process id of the shell, if there is one."""
        return None if self._shell is None else self._shell.pid

    def guard(self, group: int) -> None:
        """Have the group killed when this process is gone."""
        with self._lock:
            if group not in self._groups:
                self._groups.add(group)
                self._tell(f"+ {group}\n")

    def release(self, group: int) -> None:
        """Take that back. Before the group's id is free: another group that got it would be killed."""
        with self._lock:
            if group in self._groups:
                self._groups.remove(group)
                self._tell(f"- {group}\n")

    def close(self) -> None:
        """End the shell, and the groups with it that are still guarded."""
        with self._lock:
            self._let_go()
            self._groups.clear()

    def _tell(self, line: str) -> None:
        if self._shell is not None:
            try:
                os.write(self._pipe, line.encode())  # all or nothing: it is shorter than PIPE_BUF
                return
            except (BrokenPipeError, BlockingIOError):
                # Somebody killed or stopped the shell. Not to be asked any more: what it knows is not true.
                self._shell.kill()
                self._let_go()
        if self._groups:
            self._start()

    def _start(self) -> None:
        """Start a shell that knows all groups there are."""
        theirs = ours = -1
        try:
            theirs, ours = os.pipe()
            known = "".join(f"+ {group}\n" for group in self._groups).encode()
            # Before it runs: a kill between its start and a later write would leave the groups.
            early = known[: select.PIPE_BUF]  # as much as the pipe certainly holds
            os.write(ours, early)
            shell = subprocess.Popen(
                [SHELL, "-c", SCRIPT, "weft-watchdog"],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,  # a terminal's Ctrl-C and hang-up are not for it
            )
        except OSError as error:
            # Commands run without it too; the next one tries again.
            log.warning("no watchdog: %s", error, extra={"action": "watchdog_failed"})
            if ours != -1:
                os.close(ours)
            return
        finally:
            if theirs != -1:
                os.close(theirs)
        self._pipe, self._shell = ours, shell
        with contextlib.suppress(BrokenPipeError):  # it is dead already: the next to tell it something sees
            os.write(ours, known[len(early) :])
        os.set_blocking(ours, False)  # from now on: a shell that somebody stopped must not stop us

    def _let_go(self) -> None:
        if self._shell is not None:
            os.close(self._pipe)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._shell.wait(EXIT_SECONDS)
            self._shell = None

    def _forget_all(self) -> None:
        """In a fork of this process: its programs are not ours, and a pipe that we hold does not end."""
        self._lock = threading.Lock()
        if self._shell is not None:
            os.close(self._pipe)
            self._shell.returncode = 0  # not our child: nothing to wait for, and nothing to warn of
            self._shell = None
        self._groups.clear()


watchdog = Watchdog()
"""The one of this process."""

atexit.register(watchdog.close)
