"""Programs that `command` started end with the process that started them, however that one ends."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.command_line import Process, is_gone, read_until, started, wait_for

FAMILY = """
import os, signal, subprocess, sys, time
folder, how = sys.argv[1:]
signal.signal(signal.SIGTERM, signal.SIG_IGN)
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
with open(f"{folder}/writing", "w") as pids:
    pids.write(f"{os.getpid()} {grandchild.pid}")
os.rename(f"{folder}/writing", f"{folder}/pids")
if how == "leaves":
    os.close(1), os.close(2), os._exit(0)
while True:
    open(f"{folder}/beat", "a").write("x")
    time.sleep(0.01)
"""
"""A deaf program that starts another one, and beats."""


def a_family(folder: Path, how: str = "stays") -> str:
    """Return a flow of one task, which runs the family."""
    argv = [sys.executable, "-c", FAMILY, str(folder), how]
    return json.dumps([{"name": "family", "schemas": {"method": "command"}, "inputs": {"argv": argv}}])


def pids_in(folder: Path) -> list[int]:
    wait_for((folder / "pids").exists)
    return [int(pid) for pid in (folder / "pids").read_text().split()]


def helpers_of(process: Process) -> list[int]:
    """Return the processes that it has started besides the program."""
    found = []
    for child in psutil.Process(process.pid).children():
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            if child.name() == "sh":
                found.append(child.pid)
    return found


@pytest.fixture(autouse=True)
def _no_family_is_left(tmp_path: Path) -> Iterator[None]:
    """Whether or not weft ends it, the test does."""
    yield
    if (tmp_path / "pids").exists():
        for pid in pids_in(tmp_path):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "weft.db")


def test_a_killed_process_takes_its_programs_with_it(db: str, tmp_path: Path) -> None:
    with started("flow", "run", "-", db=db, stdin=a_family(tmp_path)) as process:
        family = pids_in(tmp_path)
        wait_for((tmp_path / "beat").exists)
        wait_for(lambda: bool(helpers_of(process)))
        watchdog = helpers_of(process)
        process.kill()

        wait_for(lambda: all(map(is_gone, [*family, *watchdog])), seconds=10)
        assert len(watchdog) == 1


def test_what_a_program_left_behind_goes_too(db: str, tmp_path: Path) -> None:
    (tmp_path / "weft.toml").write_text("[executors.command]\ngrace_seconds = 600")
    with started("flow", "run", "-", db=db, stdin=a_family(tmp_path, "leaves"), cwd=tmp_path) as process:
        program, grandchild = pids_in(tmp_path)
        wait_for(lambda: is_gone(program))
        assert not is_gone(grandchild), "it is deaf to SIGTERM, and the grace time is long"
        process.kill()

        wait_for(lambda: is_gone(grandchild), seconds=10)


def test_a_process_that_leaves_at_once_takes_its_programs_with_it(db: str, tmp_path: Path) -> None:
    with started("flow", "run", "-", db=db, stdin=a_family(tmp_path)) as process:
        family = pids_in(tmp_path)
        process.send_signal(signal.SIGINT)
        read_until(process.stderr, "stopping")
        process.send_signal(signal.SIGINT)

        assert process.wait(timeout=10) == 130
        wait_for(lambda: all(map(is_gone, family)), seconds=10)


def test_a_deaf_program_holds_up_stopping_by_little(db: str, tmp_path: Path) -> None:
    with started("flow", "run", "-", db=db, stdin=a_family(tmp_path)) as process:
        family = pids_in(tmp_path)
        process.send_signal(signal.SIGINT)
        read_until(process.stderr, "stopping")
        before = time.monotonic()
        process.wait(timeout=60)

        assert time.monotonic() - before < 6, "two seconds for tasks to end, two from SIGTERM to SIGKILL"
        assert all(map(is_gone, family))


def test_a_killed_watchdog_is_replaced_by_the_next_command(db: str, tmp_path: Path) -> None:
    go = tmp_path / "go"
    gate = f"import pathlib, time\nwhile not pathlib.Path({str(go)!r}).exists(): time.sleep(0.01)"
    document = [
        *json.loads(a_family(tmp_path)),
        {"name": "gate", "schemas": {"method": "command"}, "inputs": {"argv": [sys.executable, "-c", gate]}},
    ]
    with started("flow", "run", "-", db=db, stdin=json.dumps(document)) as process:
        family = pids_in(tmp_path)
        wait_for(lambda: len(helpers_of(process)) == 1)
        (first,) = helpers_of(process)
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: is_gone(first))
        go.touch()  # the end of this command is told to the watchdog, which is found to be gone
        wait_for(lambda: [pid for pid in helpers_of(process) if not is_gone(pid)] not in ([], [first]))
        process.kill()

        wait_for(lambda: all(map(is_gone, family)), seconds=10)


def test_the_watchdog_ends_with_a_process_that_ends_well(db: str, tmp_path: Path) -> None:
    go = tmp_path / "go"
    gate = f"import pathlib, time\nwhile not pathlib.Path({str(go)!r}).exists(): time.sleep(0.01)"
    document = [
        {"name": "gate", "schemas": {"method": "command"}, "inputs": {"argv": [sys.executable, "-c", gate]}}
    ]
    with started("flow", "run", "-", db=db, stdin=json.dumps(document)) as process:
        wait_for(lambda: len(helpers_of(process)) == 1)
        (watchdog,) = helpers_of(process)
        for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            os.kill(watchdog, ignored)
        assert os.getsid(watchdog) == watchdog
        go.touch()
        out, err = process.communicate(timeout=60)

        assert process.returncode == 0, err
        assert "1 task: 1 completed" in out.decode()
        wait_for(lambda: is_gone(watchdog), seconds=10)
