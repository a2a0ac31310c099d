"""Finds aider, or installs it into a separate virtual environment, as its packages conflict with weft's."""

import asyncio
import errno
import fcntl
import os
import shlex
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from weft.aio import run_blocking
from weft.config.paths import cache_folder
from weft.config.sections import AiderSettings
from weft.executors.protocol import ExecutionFailed, permanent_failure
from weft.limits import decode_text
from weft.process.group import CapturedGroup, run_captured
from weft.secrets.truncation import cut

PACKAGE = "aider-chat"
VERSION = "0.86.2"
SIZE = "about 700 MB"
"""Size on disk, with all dependencies."""

MARK = "weft-installed"
"""The file that marks a complete installation."""


class AiderProgram(Struct, frozen=True):
    """An installed aider."""

    place: str
    """Path of its script, or of the virtual environment that weft created."""
    python: str
    """The interpreter that has the aider package."""


def find_aider(settings: AiderSettings, environment: Mapping[str, str]) -> AiderProgram | None:
    """Find an installed aider, or return None. Raise ExecutionFailed if a configured one is unusable."""
    if settings.program is not None:
        found = shutil.which(settings.program, path=environment.get("PATH"))
        if found is None:
            raise _unusable(f"[executors.aider] program: executable '{settings.program}' not found")
        return _read_script(Path(found))
    found = shutil.which("aider", path=environment.get("PATH"))
    return _read_script(Path(found)) if found is not None else find_installed(environment)


def find_installed(environment: Mapping[str, str]) -> AiderProgram | None:
    """Find the aider that weft installed; None if it is not installed or not complete."""
    folder = own_environment(environment)
    if not (folder / MARK).is_file():
        return None
    return AiderProgram(str(folder), str(folder / "bin" / "python"))


def own_environment(environment: Mapping[str, str]) -> Path:
    """Return the virtual environment of the version that weft installs."""
    return cache_folder(environment) / "aider" / VERSION


def _read_script(path: Path) -> AiderProgram:
    """Return the aider of a script, with the interpreter from its first lines, which runs the launcher."""
    try:
        with path.open("rb") as file:
            lines = decode_text(file.read(4096)).splitlines()
    except OSError as error:
        raise _unusable(f"{path} cannot be read: {error.strerror}") from error
    python = _find_interpreter(lines)
    if python is None:
        raise _unusable(f"{path} is not a Python script, so its interpreter is unknown")
    return AiderProgram(str(path), python)


def _find_interpreter(lines: list[str]) -> str | None:
    """Return the Python in a script's first line, or in the second if its path is too long for the first."""
    if not lines or not lines[0].startswith("#!"):
        return None
    words = _split_words(lines[0].removeprefix("#!"))
    if words[:1] == ["/bin/sh"] and len(lines) > 1:
        words = _split_words(lines[1].removeprefix("'''exec'"))
    elif words and Path(words[0]).name == "env":
        words = words[1:]
    if not words or "python" not in Path(words[0]).name:
        return None
    return shutil.which(words[0])


def _split_words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def _unusable(message: str) -> ExecutionFailed:
    return permanent_failure(f"aider cannot be used: {message}")


PYTHONS = ("python3.12", "python3.11", "python3.10")
"""The Python versions that this version of aider supports."""

NEWEST = (3, 12)

LOCK_POLL_SECONDS = 0.1
"""How often to check whether another process has released a folder."""

GRACE_SECONDS = 2.0
MAX_OUTPUT_BYTES = 100_000

Say = Callable[[str], None]


async def ready_aider(settings: AiderSettings, environment: Mapping[str, str], say: Say) -> AiderProgram:
    """Find aider, or install it; raise ExecutionFailed."""
    found = await run_blocking(lambda: find_aider(settings, environment), name="weft-aider")
    if found is not None:
        return found
    if not settings.install:
        raise permanent_failure(
            f"aider is not installed: install it (pipx install {PACKAGE}), or let weft install it: set "
            "install = true in [executors.aider] of weft.toml"
        )
    return await install_aider(environment, say)


async def install_aider(environment: Mapping[str, str], say: Say) -> AiderProgram:
    """Install the version that weft is tested with. Other processes wait for the one that installs it."""
    folder = own_environment(environment)
    folder.parent.mkdir(parents=True, exist_ok=True)
    async with lock_folder(folder.parent):
        if (found := find_installed(environment)) is not None:
            return found
        python = await run_blocking(_find_python, name="weft-aider")
        say(f"installing aider {VERSION} ({SIZE}) into {folder}; this takes a few minutes, once")
        await run_blocking(lambda: shutil.rmtree(folder, ignore_errors=True), name="weft-aider")
        # -I: files in the working directory, which may be untrusted, must not shadow modules.
        await _run([python, "-I", "-m", "venv", str(folder)], environment)
        own = str(folder / "bin" / "python")
        pip = (own, "-I", "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check")
        await _run([*pip, "--prefer-binary", f"{PACKAGE}=={VERSION}"], environment)
        (folder / MARK).write_text(f"{VERSION}\n", "utf-8")
        say(f"installed aider {VERSION}")
    return AiderProgram(str(folder), own)


def _find_python() -> str:
    """Find a Python that aider supports: that of this process if it is not too new, else one on PATH."""
    if sys.version_info[:2] <= NEWEST:
        return sys.executable
    for name in PYTHONS:
        found = shutil.which(name)
        # A version manager may have a shim on PATH for a Python that is not installed.
        if found is not None and _can_make_venv(found):
            return found
    raise permanent_failure(
        f"aider {VERSION} needs one of {', '.join(PYTHONS)} on PATH: install one, or install aider "
        f"yourself (pipx install {PACKAGE})"
    )


def _can_make_venv(python: str) -> bool:
    return run_captured([python, "-I", "-c", "import venv"], env=os.environ).returncode == 0


async def _run(argv: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run a command; raise ExecutionFailed if it fails. It ends on cancellation, or if weft is killed."""
    group = CapturedGroup(argv, env=environment, max_output_bytes=MAX_OUTPUT_BYTES)
    if code := await group.finish(None, lambda: GRACE_SECONDS):
        output = cut(group.stderr.last_text or group.stdout.last_text, 500) or f"exit code {code}"
        raise ExecutionFailed(
            "aider could not be installed: check the network, and that pip's index has "
            f"{PACKAGE} {VERSION}. {output}"
        )


@asynccontextmanager
async def lock_folder(folder: Path) -> AsyncIterator[None]:
    """Hold a folder exclusively during the `with` block, also against other processes.

    The lock is on the folder itself, so no file is left behind; the kernel releases it if the process dies.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        while not _try_lock(descriptor):  # noqa: ASYNC110 - the holder may be another process
            await asyncio.sleep(LOCK_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # On a file system without such locks, continue without a lock.
        return error.errno not in (errno.EWOULDBLOCK, errno.EINTR)
    return True
