"""Where aider is: as the settings say, on PATH, or in an environment of its own in the cache folder."""

import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from weft.cache_folder import cache_folder
from weft.executor_settings import AiderSettings
from weft.executors.protocol import ExecutionFailed

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
