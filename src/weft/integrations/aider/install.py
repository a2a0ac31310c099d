"""Find aider, or install it into a virtual environment of its own: its packages would clash with weft's."""

import asyncio
import fcntl
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from weft.aio import run_blocking
from weft.config.paths import cache_folder
from weft.config.sections import AiderSettings
from weft.executors.protocol import ExecutionFailed
from weft.process.group import ProcessGroup
from weft.secrets.truncation import cut

PACKAGE = "aider-chat"
VERSION = "0.86.2"
SIZE = "about 700 MB"
"""On disk, with everything it needs."""

MARK = "weft-installed"
"""The file that says that an environment is whole."""


class AiderProgram(Struct, frozen=True):
    """An aider that is there."""

    place: str
    """Its script, or the environment that weft made for it."""
    python: str
    """The interpreter that has its package."""


def find_aider(settings: AiderSettings, environment: Mapping[str, str]) -> AiderProgram | None:
    """The aider to use; None when there is none yet. Raises ExecutionFailed when it is named and is none."""
    if settings.program is not None:
        found = shutil.which(settings.program, path=environment.get("PATH"))
        if found is None:
            raise _unusable(f"[executors.aider] program: there is no program '{settings.program}'")
        return _script(Path(found))
    found = shutil.which("aider", path=environment.get("PATH"))
    return _script(Path(found)) if found is not None else installed(environment)


def installed(environment: Mapping[str, str]) -> AiderProgram | None:
    """The one that weft has installed."""
    folder = own_environment(environment)
    if not (folder / MARK).is_file():
        return None
    return AiderProgram(str(folder), str(folder / "bin" / "python"))


def own_environment(environment: Mapping[str, str]) -> Path:
    """The virtual environment of the version that weft installs."""
    return cache_folder(environment) / "aider" / VERSION


def _script(place: Path) -> AiderProgram:
    """The script with its interpreter, which has to be known: aider is started in it on a leash."""
    try:
        with place.open("rb") as file:
            lines = file.read(4096).decode("utf-8", "replace").splitlines()
    except OSError as error:
        raise _unusable(f"{place} cannot be read: {error.strerror}") from error
    python = _interpreter(lines)
    if python is None:
        raise _unusable(f"{place} is no Python script, so that its Python is not known")
    return AiderProgram(str(place), python)


def _interpreter(lines: list[str]) -> str | None:
    """The Python of a script: from its first line, or from the second where the path is too long for that."""
    if not lines or not lines[0].startswith("#!"):
        return None
    words = _words(lines[0].removeprefix("#!"))
    if words[:1] == ["/bin/sh"] and len(lines) > 1:
        words = _words(lines[1].removeprefix("'''exec'"))
    elif words and Path(words[0]).name == "env":
        words = words[1:]
    if not words or "python" not in Path(words[0]).name:
        return None
    return shutil.which(words[0])


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def _unusable(message: str) -> ExecutionFailed:
    return ExecutionFailed(f"aider cannot be used: {message}", is_permanent=True)


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
