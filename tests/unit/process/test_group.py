"""Process groups and their pipes, with real children."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from tests.command_line import is_gone, wait_for
from weft.process.group import CapturedGroup, ProcessGroup, require_pipe, run_captured, start_process
from weft.process.pipes import InputPipe, LinePipe, StreamPipe

SLEEPER = "sleep 3600 & echo $!; echo half >&2; wait"


def open_descriptors() -> int:
    return int(psutil.Process().num_fds())


def test_a_short_command_gives_its_output_and_exit_code() -> None:
    done = run_captured(["/bin/sh", "-c", "printf out; printf err >&2; exit 3"], env={})

    assert (done.returncode, done.stdout, done.stderr) == (3, b"out", b"err")


def test_at_the_time_limit_the_whole_group_of_a_short_command_is_killed() -> None:
    with pytest.raises(subprocess.TimeoutExpired) as raised:
        run_captured(["/bin/sh", "-c", SLEEPER], env=os.environ, timeout_seconds=1.0)

    child = int((raised.value.stdout or b"").split()[0])
    wait_for(lambda: is_gone(child), seconds=10)


async def test_at_the_time_limit_there_is_no_exit_code_and_nothing_is_left() -> None:
    run_captured(["/bin/true"], env={})  # the watchdog keeps its descriptor
    before = open_descriptors()

    group = CapturedGroup(["/bin/sh", "-c", SLEEPER], env=os.environ, max_output_bytes=1000)
    code = await group.finish(1.0, lambda: 5.0)

    assert code is None
    wait_for(lambda: is_gone(int(group.stdout.text)), seconds=10)
    assert group.stderr.last_text == "half"
    assert open_descriptors() == before


async def test_output_can_be_read_as_it_comes_and_input_written_in_turn() -> None:
    process = start_process(["/bin/cat"], env={})
    stdin, stdout = InputPipe(require_pipe(process.stdin)), StreamPipe(require_pipe(process.stdout))
    lines: list[bytes] = []
    stderr = LinePipe(require_pipe(process.stderr), lines.append)
    group = ProcessGroup(process, outputs=(stdout, stderr), stdin=stdin)

    for said in (b"one", b"x" * 60_000):
        await stdin.write(said)
        read = b""
        while len(read) < len(said):
            read += await stdout.read()
        assert read == said
    stdin.close()

    assert await stdout.read() == b""
    assert await group.wait() == 0
    with pytest.raises(BrokenPipeError):
        await stdin.write(b"late")
    await group.end(0.0)
    assert lines == [b""]


async def test_writing_to_a_process_that_has_closed_its_input_fails() -> None:
    process = start_process([sys.executable, "-c", "import os, time; os.close(0); time.sleep(3600)"], env={})
    stdin = InputPipe(require_pipe(process.stdin))
    outputs = [LinePipe(require_pipe(pipe), lambda _: None) for pipe in (process.stdout, process.stderr)]
    group = ProcessGroup(process, outputs=outputs, stdin=stdin)
    try:
        with pytest.raises(BrokenPipeError):
            await stdin.write(b"x" * 1_000_000)  # more than a pipe holds
    finally:
        await group.end(0.0)


async def test_a_stopped_process_is_reported_and_can_be_continued() -> None:
    process = start_process(["/bin/sh", "-c", "kill -STOP $$; exit 7"], env={}, stdio="output")
    outputs = [LinePipe(require_pipe(pipe), lambda _: None) for pipe in (process.stdout, process.stderr)]
    group = ProcessGroup(process, outputs=outputs, on_stop=lambda: os.killpg(process.pid, signal.SIGCONT))

    assert await group.finish(60.0, lambda: 0.0) == 7
