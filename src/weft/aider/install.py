"""Puts aider into a virtual environment of its own: what it needs would clash with what weft needs."""

import asyncio
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from weft.aider.program import (
    MARK,
    PACKAGE,
    SIZE,
    VERSION,
    AiderProgram,
    find_aider,
    installed,
    own_environment,
)
from weft.executor_settings import AiderSettings
from weft.executors.process_group import ProcessGroup
from weft.executors.protocol import ExecutionFailed
from weft.secrets.cutting import cut
from weft.threads import run_blocking

PYTHONS = ("python3.12", "python3.11", "python3.10")
"""Those that this version of aider runs on."""

NEWEST = (3, 12)

LOCK_SECONDS = 0.2
"""How often to look whether another process has ended its installation."""

GRACE_SECONDS = 2.0
MAX_OUTPUT_BYTES = 100_000

Say = Callable[[str], None]


async def ready_aider(settings: AiderSettings, environment: Mapping[str, str], say: Say) -> AiderProgram:
    """The aider to use, installed if it has to be; raises ExecutionFailed with what to do."""
    found = await run_blocking(lambda: find_aider(settings, environment), name="weft-aider")
    if found is not None:
        return found
    if not settings.install:
        raise ExecutionFailed(
            f"aider is not here: install it (pipx install {PACKAGE}), or let weft do it: [executors.aider] "
            "install = true in weft.toml",
            is_permanent=True,
        )
    return await install_aider(environment, say)


async def install_aider(environment: Mapping[str, str], say: Say) -> AiderProgram:
    """Install the version that weft is tested with; one process does, and others wait for it."""
    folder = own_environment(environment)
    async with _locked(folder.parent):
        if (found := installed(environment)) is not None:
            return found
        python = await run_blocking(_python, name="weft-aider")
        say(f"installing aider {VERSION} ({SIZE}) into {folder}; this takes a few minutes, once")
        await run_blocking(lambda: shutil.rmtree(folder, ignore_errors=True), name="weft-aider")
        # With -I no file of the working folder, which may be a stranger's, takes the place of a module.
        await _run([python, "-I", "-m", "venv", str(folder)], environment)
        own = str(folder / "bin" / "python")
        pip = (own, "-I", "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check")
        await _run([*pip, "--prefer-binary", f"{PACKAGE}=={VERSION}"], environment)
        (folder / MARK).write_text(f"{VERSION}\n", "utf-8")
        say(f"installed aider {VERSION}")
    return AiderProgram(str(folder), own)


def _python() -> str:
    """A Python that aider runs on: this one, if it is not too new."""
    if sys.version_info[:2] <= NEWEST:
        return sys.executable
    for name in PYTHONS:
        found = shutil.which(name)
        # One that a version manager has put on PATH may be there in name only.
        if found is not None and _runs(found):
            return found
    raise ExecutionFailed(
        f"aider {VERSION} needs one of {', '.join(PYTHONS)}, and none is on PATH: install one, or aider "
        f"itself (pipx install {PACKAGE})",
        is_permanent=True,
    )


def _runs(python: str) -> bool:
    done = subprocess.run(
        [python, "-I", "-c", "import venv"], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return done.returncode == 0


async def _run(argv: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run a program to its end; cancelled, or with weft killed, it ends too."""
    group = ProcessGroup.start(
        argv, executable=argv[0], env=environment, cwd=None, stdin=None, max_output_bytes=MAX_OUTPUT_BYTES
    )
    try:
        code = await group.wait()
    finally:
        await group.end(GRACE_SECONDS)
    if code:
        said = cut(group.stderr.last_text or group.stdout.last_text, 500) or f"exit code {code}"
        raise ExecutionFailed(
            "aider could not be installed; is there a network, and does pip's index have "
            f"{PACKAGE} {VERSION}? {said}"
        )


@asynccontextmanager
async def _locked(folder: Path) -> AsyncIterator[None]:
    """Hold the lock of a folder; it is let go with the process, however that ends."""
    lock = await run_blocking(lambda: _lock_file(folder), name="weft-aider")
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(LOCK_SECONDS)
        yield
    finally:
        os.close(lock)


def _lock_file(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    return os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
