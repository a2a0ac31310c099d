"""The command executor: real processes; what they may do, and that nothing of them is left."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.batches import batched
from tests.executor_work import TASK_ID, run, work_of
from weft.config.sections import CommandSettings
from weft.executors import ExecutionFailed
from weft.executors.builtin import built_in_registry
from weft.executors.command import Command
from weft.process.watchdog import watchdog
from weft.tasks.record import JsonObject

DEADLINE_SECONDS = 20

QUICK = Command(CommandSettings(grace_seconds=0.2))
PATIENT = Command(CommandSettings(grace_seconds=DEADLINE_SECONDS))


def python(program: str, *arguments: str) -> JsonObject:
    return {"argv": [sys.executable, "-c", program, *arguments]}


@pytest.fixture(autouse=True)
def children() -> Iterator[Callable[[], set[int]]]:
    """Nothing the test started is left, dead or alive, and no file descriptor; but for the watchdog.

    Gives what says which of this process's children the test has started: those of other tests may be there.
    """
    this = psutil.Process()
    before, is_first = this.num_fds(), watchdog.pid is None
    others = {child.pid for child in this.children()}

    def started() -> set[int]:
        return {child.pid for child in this.children()} - others - {watchdog.pid}

    yield started
    assert started() == set()
    assert this.num_fds() <= before + is_first


def is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


async def pids_from(fifo: Path, count: int) -> list[int]:
    """Wait for the process ids that processes write to a fifo when they are ready."""

    def read() -> list[int]:
        with fifo.open() as lines:
            return [int(next(lines)) for _ in range(count)]

    return await asyncio.wait_for(asyncio.to_thread(read), DEADLINE_SECONDS)


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pids")
    return tmp_path / "pids"


FAMILY = """
import os, signal, subprocess, sys, time
fifo, how = sys.argv[1:]
if how == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
with open(fifo, "w") as out:
    out.write(f"{os.getpid()}\\n{grandchild.pid}\\n")
if how == "leaves":
    os._exit(0)
time.sleep(1000)
"""
"""A program that starts another one. A signal that is ignored stays ignored in the one it starts."""


async def test_the_result_has_the_output_and_the_exit_code() -> None:
    result = await run(QUICK, {"argv": ["sh", "-c", "echo out; echo err >&2"]})

    assert result.pop("duration_seconds") >= 0
    assert result == {
        "stdout": "out\n",
        "stderr": "err\n",
        "exit_code": 0,
        "stdout_truncated": False,
        "stderr_truncated": False,
    }


async def test_arguments_are_not_read_by_a_shell() -> None:
    tricky = "$(touch /tmp/x); `id` && * \"'"

    assert (await run(QUICK, {"argv": ["printf", "%s", tricky]}))["stdout"] == tricky


async def test_a_failing_command_fails_the_task_with_the_end_of_its_stderr() -> None:
    program = "import sys; print('out'); sys.exit('x' * 5000 + 'the reason')"

    with pytest.raises(ExecutionFailed, match=r"exited with code 1: x+the reason$") as caught:
        await run(QUICK, python(program))

    assert not caught.value.is_permanent
    assert len(caught.value.message) < 2500
    assert caught.value.details["exit_code"] == 1
    assert caught.value.details["stdout"] == "out\n"
    assert len(caught.value.details["stderr"]) > 5000


async def test_without_check_a_failing_command_completes() -> None:
    assert (await run(QUICK, {"argv": ["sh", "-c", "exit 7"], "check": False}))["exit_code"] == 7


async def test_a_command_that_a_signal_ended_says_which() -> None:
    with pytest.raises(ExecutionFailed, match="was ended by SIGKILL") as caught:
        await run(QUICK, {"argv": ["sh", "-c", "kill -9 $$"]})

    assert caught.value.details["exit_code"] == -signal.SIGKILL


async def test_stdin_is_what_it_is_given() -> None:
    assert (await run(QUICK, {"argv": ["cat"], "stdin": "héllo"}))["stdout"] == "héllo"
    assert (await run(QUICK, {"argv": ["cat"], "stdin": ""}))["stdout"] == ""
    assert (await run(QUICK, {"argv": ["cat"]}))["stdout"] == ""


async def test_a_program_need_not_read_its_stdin() -> None:
    result = await run(QUICK, {"argv": ["sh", "-c", "exec <&-; echo done"], "stdin": "x" * 10_000_000})

    assert result["stdout"] == "done\n"


async def test_a_program_that_fills_all_pipes_at_once_does_not_hang() -> None:
    program = """
import sys, threading
def fill(stream): stream.buffer.write(b"x" * 3_000_000); stream.flush()
threads = [threading.Thread(target=fill, args=[s]) for s in (sys.stdout, sys.stderr)]
for t in threads: t.start()
for t in threads: t.join()
print(len(sys.stdin.read()), end="")
"""
    result = await run(QUICK, {**python(program), "stdin": "y" * 3_000_000})

    assert len(result["stderr"]) == 3_000_000
    assert result["stdout"].endswith("x3000000")


async def test_output_beyond_the_limit_is_cut_with_a_note() -> None:
    program = "import sys; sys.stdout.write('x' * 50_000_000); sys.stderr.write('y' * 5)"

    result = await run(QUICK, {**python(program), "max_output_bytes": 10})

    assert result["stdout"] == "xxxxxxxxxx\n[cut: 49999990 of 50000000 bytes left out]"
    assert (result["stdout_truncated"], result["stderr_truncated"]) == (True, False)


async def test_output_that_is_no_utf_8_is_replaced() -> None:
    assert (await run(QUICK, {"argv": ["printf", "a\\377b"]}))["stdout"] == "a\N{REPLACEMENT CHARACTER}b"


async def test_a_grandchild_that_keeps_the_pipes_open_does_not_hang_us(fifo: Path) -> None:
    attempt = asyncio.ensure_future(run(PATIENT, python(FAMILY, str(fifo), "leaves")))
    _, grandchild = await pids_from(fifo, 2)

    assert (await asyncio.wait_for(attempt, DEADLINE_SECONDS))["exit_code"] == 0
    assert not is_alive(grandchild)


async def test_a_grandchild_that_left_the_group_does_not_hang_us(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    line = f"setsid sh -c 'echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 1000' & "
    line += f"while [ ! -e {pid_file} ]; do :; done"

    result = await asyncio.wait_for(run(QUICK, {"shell": True, "command": line}), DEADLINE_SECONDS)

    assert result["exit_code"] == 0
    os.kill(int(pid_file.read_text()), signal.SIGKILL)


async def test_a_process_that_left_the_group_and_writes_without_end_does_not_hang_us() -> None:
    line = "setsid yes & read ready < /dev/null; exit 0"

    result = await asyncio.wait_for(run(QUICK, {"shell": True, "command": line}), DEADLINE_SECONDS)

    assert result["stdout"].startswith("y\n")


async def test_waiting_for_output_does_not_keep_the_processor_busy(fifo: Path) -> None:
    attempt = asyncio.ensure_future(run(QUICK, python(FAMILY, str(fifo), "leaves")))
    await pids_from(fifo, 2)
    before = time.process_time()
    await attempt

    assert time.process_time() - before < 0.5


async def test_a_background_process_ends_with_the_command() -> None:
    line = "sleep 1000 > /dev/null 2>&1 & echo $!"

    result = await run(PATIENT, {"shell": True, "command": line})

    assert not is_alive(int(result["stdout"]))


async def test_output_that_comes_after_the_exit_is_still_read() -> None:
    program = """
import os
parent = os.getpid()
if os.fork():
    os.write(1, b"early\\n")
    os._exit(0)
while os.getppid() == parent:
    pass
os.write(1, b"late\\n")
"""

    assert (await run(PATIENT, python(program)))["stdout"] == "early\nlate\n"


@pytest.mark.parametrize(
    ("executor", "how"), [(PATIENT, "polite"), (QUICK, "stubborn")], ids=["polite", "stubborn"]
)
async def test_cancel_ends_the_whole_group(executor: Command, how: str, fifo: Path) -> None:
    attempt = asyncio.ensure_future(run(executor, python(FAMILY, str(fifo), how)))
    child, grandchild = await pids_from(fifo, 2)
    before = time.monotonic()

    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt

    assert not is_alive(child)
    assert not is_alive(grandchild)
    assert time.monotonic() - before < DEADLINE_SECONDS / 2


async def test_a_second_cancel_does_not_wait_for_the_grace_time(
    fifo: Path, children: Callable[[], set[int]]
) -> None:
    attempt = asyncio.ensure_future(run(PATIENT, python(FAMILY, str(fifo), "stubborn")))
    child, grandchild = await pids_from(fifo, 2)
    before = time.monotonic()

    attempt.cancel()
    await asyncio.sleep(0)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    while is_alive(child) or is_alive(grandchild) or children():
        assert time.monotonic() - before < DEADLINE_SECONDS / 2
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("executor", "how"), [(PATIENT, "polite"), (QUICK, "stubborn")], ids=["polite", "stubborn"]
)
async def test_a_timeout_ends_the_whole_group(executor: Command, how: str, fifo: Path) -> None:
    inputs = {**python(FAMILY, str(fifo), how), "timeout_seconds": 3}
    attempt = asyncio.ensure_future(run(executor, inputs))
    child, grandchild = await pids_from(fifo, 2)

    with pytest.raises(ExecutionFailed, match="did not end within 3 s") as caught:
        await attempt

    assert not caught.value.is_permanent
    assert caught.value.details["exit_code"] is None
    assert not is_alive(child)
    assert not is_alive(grandchild)


async def test_a_stopped_process_is_ended_too(fifo: Path) -> None:
    attempt = asyncio.ensure_future(run(PATIENT, python(FAMILY, str(fifo), "polite")))
    child, _ = await pids_from(fifo, 2)
    os.kill(child, signal.SIGSTOP)

    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(attempt, DEADLINE_SECONDS)

    assert not is_alive(child)


async def test_what_a_program_printed_before_its_timeout_is_kept() -> None:
    inputs = {"argv": ["sh", "-c", "echo begun; exec sleep 1000"], "timeout_seconds": 1}

    with pytest.raises(ExecutionFailed) as caught:
        await run(PATIENT, inputs)

    assert caught.value.details["stdout"] == "begun\n"


async def test_a_hundred_commands_at_once_leave_nothing() -> None:
    results = await asyncio.gather(*(run(QUICK, {"argv": ["echo", str(n)]}) for n in range(100)))

    assert [result["stdout"] for result in results] == [f"{n}\n" for n in range(100)]


async def test_without_pidfds_a_thread_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")

    assert (await run(QUICK, {"argv": ["sh", "-c", "echo a; exit 3"], "check": False}))["exit_code"] == 3


async def test_the_environment_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    monkeypatch.setenv("LC_MESSAGES", "C")

    lines = (await run(QUICK, {"argv": ["env"], "env": {"OWN": "mine"}}))["stdout"].splitlines()
    names = {line.partition("=")[0] for line in lines}

    assert {"OWN=mine", f"WEFT_TASK_ID={TASK_ID}", "WEFT_ATTEMPT=1", "LC_MESSAGES=C"} <= set(lines)
    assert names <= {
        *("PATH", "HOME", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV", "OWN", "WEFT_TASK_ID", "WEFT_ATTEMPT"),
        *(name for name in os.environ if name.startswith("LC_")),
    }


async def test_the_folder_is_the_one_asked_for(tmp_path: Path) -> None:
    assert (await run(QUICK, {"argv": ["pwd"], "cwd": str(tmp_path)}))["stdout"] == f"{tmp_path}\n"


async def test_a_folder_outside_of_the_roots_is_refused(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside, inside / "sub"):
        folder.mkdir()
    (inside / "link").symlink_to(outside)
    command = built_in_registry(roots=[str(inside)]).get("command")

    assert (await run(command, {"argv": ["pwd"], "cwd": str(inside / "sub")}))["stdout"] == f"{inside}/sub\n"
    for cwd in ("/", str(outside), str(inside / ".."), str(inside / "link"), "."):
        with pytest.raises(ExecutionFailed, match="outside of the roots") as caught:
            await run(command, {"argv": ["pwd"], "cwd": cwd})
        assert caught.value.is_permanent


@batched(
    ("inputs", "reason"),
    [
        ({}, "argv"),
        ({"argv": []}, "[]"),
        ({"argv": ["no-such-program-here"]}, "'no-such-program-here' was not found in PATH"),
        ({"argv": ["/no/such/program"]}, "/no/such/program cannot be started: No such file or directory"),
        ({"argv": ["/"]}, "/ cannot be started: Permission denied"),
        ({"argv": [""]}, "'' was not found"),
        ({"argv": ["true"], "cwd": "/no/such/folder"}, "there is no folder '/no/such/folder'"),
        ({"argv": ["echo", "a\0b"]}, "does not match"),
        ({"argv": ["e\0cho"]}, "does not match"),
        ({"argv": ["true"], "env": {"A": "a\0b"}}, "does not match"),
        ({"argv": ["true"], "env": {"A\0B": "x"}}, "true cannot be started: embedded null byte"),
        ({"argv": ["true"], "env": {"A=B": "x"}}, "true cannot be started: illegal environment variable"),
        ({"argv": ["true"], "cwd": "a\0b"}, "cwd"),
        ({"argv": ["echo", "x" * 5_000_000]}, "echo cannot be started: Argument list too long"),
        ({"command": "true"}, "argv"),
        ({"shell": True, "argv": ["true"]}, '"command" is a required property'),
        ({"argv": ["true"], "timeout_seconds": 0}, "timeout_seconds"),
        ({"argv": "true"}, "argv"),
    ],
)
async def test_what_cannot_run_fails_for_good_and_says_why(inputs: JsonObject, reason: str) -> None:
    with pytest.raises(ExecutionFailed) as caught:
        await run(QUICK, inputs)

    assert reason in caught.value.message
    assert caught.value.is_permanent


@pytest.mark.parametrize(
    "inputs", [{}, {"shell": True}, {"argv": ["echo", "a\0b"]}, {"argv": ["a", "\ud800"]}]
)
async def test_wrong_inputs_are_refused_also_without_the_schema(inputs: JsonObject) -> None:
    with pytest.raises(ExecutionFailed) as caught:
        await QUICK.execute(work_of(inputs))

    assert caught.value.is_permanent


async def test_the_shell_runs_only_when_it_is_asked_for() -> None:
    assert (await run(QUICK, {"shell": True, "command": "echo $((1 + 1))"}))["stdout"] == "2\n"


async def test_the_shell_is_refused_beside_a_list_of_programs() -> None:
    with pytest.raises(ExecutionFailed, match="allow_shell = true") as caught:
        await run(Command(CommandSettings(allow=("echo",))), {"shell": True, "command": "echo a"})

    assert caught.value.is_permanent


LISTED = Command(CommandSettings(allow=("echo", "/bin/cat", "not-installed")))


async def test_listed_programs_run_by_name_and_by_path() -> None:
    assert (await run(LISTED, {"argv": ["echo", "a"]}))["stdout"] == "a\n"
    assert (await run(LISTED, {"argv": ["/bin/cat"], "stdin": "b"}))["stdout"] == "b"


@pytest.mark.parametrize(
    "program",
    ["sh", "/bin/sh", "./echo", "/opt/echo", "/bin/../bin/sh", "echo ", "no-such-thing", "cat/../sh"],
)
async def test_programs_that_are_not_listed_do_not_run(program: str) -> None:
    with pytest.raises(ExecutionFailed, match=r"may not run: .*echo, /bin/cat") as caught:
        await run(LISTED, {"argv": [program]})

    assert caught.value.is_permanent


async def test_a_listed_program_that_is_not_there_is_said_to_be_missing() -> None:
    with pytest.raises(ExecutionFailed, match="'not-installed' was not found"):
        await run(LISTED, {"argv": ["not-installed"]})


async def test_a_task_cannot_put_another_program_in_the_place_of_a_listed_one(tmp_path: Path) -> None:
    (tmp_path / "echo").write_text("#!/bin/sh\nprintf 'the false one'\n")
    (tmp_path / "echo").chmod(0o755)
    inputs = {"argv": ["echo", "the true one"], "env": {"PATH": str(tmp_path)}, "cwd": str(tmp_path)}

    assert (await run(LISTED, inputs))["stdout"] == "the true one\n"
    assert (await run(QUICK, inputs))["stdout"] == "the false one"


async def test_a_task_cannot_load_code_into_a_listed_program() -> None:
    with pytest.raises(ExecutionFailed, match="may not set LD_PRELOAD"):
        await run(LISTED, {"argv": ["echo"], "env": {"LD_PRELOAD": "/opt/evil.so"}})


async def test_output_of_nul_takes_no_more_room_in_the_store_than_the_limit() -> None:
    program = r"import sys; sys.stdout.buffer.write(b'\0' * 1_000_000)"

    result = await run(QUICK, {**python(program), "max_output_bytes": 60_000})

    assert result["stdout"].startswith("\0" * 10_000 + "\n[cut: 990000 of 1000000 bytes")
    assert len(json.dumps(result["stdout"])) < 61_000
    assert result["stdout_truncated"]
