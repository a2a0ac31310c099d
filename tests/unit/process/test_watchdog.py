"""The watchdog with real groups and its real shell."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import psutil
import pytest

from tests.command_line import Process, ended
from weft.process import watchdog as module
from weft.process.watchdog import Watchdog


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def watchdog() -> Iterator[Watchdog]:
    watchdog = Watchdog()
    yield watchdog
    watchdog.close()


def a_group(stack: ExitStack) -> Process:
    """Start a process that leads a group and waits."""
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    stack.enter_context(ended(process))
    return process


def killed(process: Process) -> bool:
    return process.wait(timeout=10) == -signal.SIGKILL


@pytest.mark.parametrize("shell", ["sh", "dash", "bash", "busybox"])
def test_it_kills_what_is_guarded_and_nothing_else(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    place = shutil.which(shell)
    if place is None:
        pytest.skip(f"there is no {shell} here")
    monkeypatch.setattr(module, "SHELL", place)
    watchdog = Watchdog()
    groups = [a_group(stack) for _ in range(5)]
    for group in groups:
        watchdog.guard(group.pid)
    for group in (groups[0], groups[2], groups[4]):
        watchdog.release(group.pid)
    watchdog.guard(groups[4].pid)

    watchdog.close()

    assert all(killed(groups[number]) for number in (1, 3, 4))
    assert [groups[number].poll() for number in (0, 2)] == [None, None]


def test_it_is_started_with_the_first_group_and_stays(stack: ExitStack, watchdog: Watchdog) -> None:
    before = watchdog.pid
    group = a_group(stack)
    watchdog.guard(group.pid)
    first = watchdog.pid
    watchdog.release(group.pid)
    watchdog.guard(group.pid)

    assert before is None
    assert first is not None
    assert watchdog.pid == first
    watchdog.release(group.pid)


def test_one_that_was_stopped_does_not_stop_us(stack: ExitStack, watchdog: Watchdog) -> None:
    group, kept = a_group(stack), a_group(stack)
    watchdog.guard(kept.pid)
    first = watchdog.pid
    assert first is not None
    os.kill(first, signal.SIGSTOP)

    for _ in range(100_000):  # more than a pipe holds
        watchdog.guard(group.pid)
        watchdog.release(group.pid)
        if watchdog.pid != first:
            break

    assert watchdog.pid != first
    assert not psutil.pid_exists(first)
    assert kept.poll() is None
    watchdog.close()
    assert killed(kept)


FORKING = """
import os, signal, sys
from weft.process.watchdog import watchdog
watchdog.guard(int(sys.argv[1]))
if os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""
"""A process with a watchdog that is killed; its fork lives on until its input ends."""


def test_a_fork_of_the_process_does_not_keep_the_groups_alive(stack: ExitStack) -> None:
    group = a_group(stack)
    forking = subprocess.Popen(
        [sys.executable, "-c", FORKING, str(group.pid)], stdin=subprocess.PIPE, start_new_session=True
    )
    with ended(forking):
        assert killed(forking)

        assert killed(group)


def test_without_a_shell_commands_still_run_and_it_is_logged(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, watchdog: Watchdog
) -> None:
    monkeypatch.setattr(module, "SHELL", "/nowhere/sh")
    fds = psutil.Process().num_fds()

    watchdog.guard(a_group(stack).pid)

    assert watchdog.pid is None
    assert "no watchdog: " in caplog.text
    assert psutil.Process().num_fds() == fds
