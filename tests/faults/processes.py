"""Real weft processes whose clocks differ, that are frozen, or that leave traces of what they perform."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import psutil

from tests.command_line import Process, started, wait_for
from tests.faults.skewed_weft import OFFSET

_ROOT = Path(__file__).parents[2]

TRACE = """
import os, sys, time
name, seconds, file = sys.argv[1:]
until = time.monotonic() + float(seconds)
while True:
    with open(file, "a") as trace:
        trace.write(f"{name} {os.getppid()}\\n")
    if time.monotonic() >= until:
        break
    time.sleep(0.05)
"""
"""What a traced task performs: a line with its name and the process that runs it, every 0.05 s."""

IGNORE_SIGTERM = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"


def a_traced_task(
    name: str, file: Path, *, seconds: float = 0.0, is_stubborn: bool = False, **fields: Any
) -> dict[str, Any]:
    """Return a task whose command writes a line at once, and further lines while it runs.

    A stubborn one ignores SIGTERM.
    """
    argv = [sys.executable, "-c", IGNORE_SIGTERM * is_stubborn + TRACE, name, str(seconds), str(file)]
    return {"name": name, "schemas": {"method": "command"}, "inputs": {"argv": argv}, **fields}


def traces(file: Path) -> list[tuple[str, int]]:
    """Read the lines that traced tasks have written: the task's name, and the process that performed it."""
    lines = file.read_text().splitlines() if file.exists() else []
    pairs = [line.rsplit(" ", 1) for line in lines]
    return [(name, int(pid)) for name, pid in pairs]


@contextmanager
def weft_process(
    *arguments: str | Path,
    db: str,
    clock_offset_seconds: float = 0.0,
    cwd: Path | None = None,
    stderr: int | IO[bytes] = subprocess.PIPE,
    environment: Mapping[str, str] = {},
    packages: Path | None = None,
) -> Iterator[Process]:
    """`weft` on a store, running, with a clock that may be wrong, and packages that only it knows."""
    if not clock_offset_seconds and packages is None:
        with started(*arguments, db=db, cwd=cwd, stderr=stderr, **dict[str, Any](environment)) as process:
            yield process
        return
    folders = (os.environ.get("PYTHONPATH"), str(_ROOT), str(packages or ""))
    paths = os.pathsep.join(filter(None, folders))
    added: Any = {"PYTHONPATH": paths, OFFSET: str(clock_offset_seconds), **environment}
    module = "tests.faults.skewed_weft"
    with started(*arguments, db=db, cwd=cwd, stderr=stderr, module=module, **added) as process:
        yield process


def freeze(process: Process) -> None:
    """Stop a process where it is, and wait until it has stopped."""
    found = psutil.Process(process.pid)
    found.suspend()
    wait_for(lambda: found.status() == psutil.STATUS_STOPPED)
