"""What can be seen of another worker's process from here."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from weft.engine.worker import Life, life_of, new_worker_id


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that waits, and that nobody has reaped when it ends."""
    code = "import sys; print(flush=True); sys.stdin.read()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    yield child
    child.kill()
    child.communicate()


def worker_of(process: subprocess.Popen[bytes]) -> str:
    host, place, _, chance = new_worker_id().rsplit(":", 3)
    return f"{host}:{place}:{process.pid}:{chance}"


def wait_for_state(process: subprocess.Popen[bytes], flags: int) -> None:
    os.waitid(os.P_PID, process.pid, flags | os.WNOWAIT)


def test_a_process_that_runs_is_seen_to_run(process: subprocess.Popen[bytes]) -> None:
    assert life_of(worker_of(process)) is Life.RUNNING


def test_a_process_that_its_parent_has_not_reaped_is_dead(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    wait_for_state(process, os.WEXITED)

    assert life_of(worker_of(process)) is Life.DEAD


def test_a_process_that_is_gone_is_dead(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()

    assert life_of(worker_of(process)) is Life.DEAD


def test_a_stopped_process_is_frozen(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGSTOP)
    wait_for_state(process, os.WSTOPPED)

    assert life_of(worker_of(process)) is Life.FROZEN


@pytest.mark.parametrize("worker", ["", "w", "host:elsewhere:1:abcd", f"host:{'0' * 12}:x:abcd"])
def test_of_a_worker_elsewhere_nothing_is_known(worker: str) -> None:
    assert life_of(worker) is Life.UNKNOWN
