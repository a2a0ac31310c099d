"""The embedded models: the catalogue, their files on this machine, and errors."""

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
    """No embedded model of that name is in the catalogue."""

    code = "no-such-embedded-model"
    exit_code = EXIT_NOT_FOUND


class FetchFailed(TransientError):
    """The packages that hold a model could not be fetched."""

    code = "model-fetch-failed"


class WrongContents(WeftError):
    """What was fetched is not what the catalogue says; it has been deleted."""

    code = "model-wrong-contents"


class CacheUnusable(RequestError):
    """The folder that models are kept in cannot be made or written to."""

    code = "model-cache-unusable"


class NoRoom(RequestError):
    """There is not enough space on the disk for a model."""

    code = "model-no-room"


Makes = Literal["text", "embeddings"]
"""What a model makes of the texts that it is given."""


class Member(Struct, frozen=True, kw_only=True):
    """A file in an archive."""

    path: str
    size: int


class Wheel(Struct, frozen=True, kw_only=True):
    """A package that carries pieces of a model. It is read as an archive, never installed or imported."""

    package: str
    """`name==version`."""
    file: str
    size: int
    sha256: str
    members: tuple[Member, ...]
    """The pieces."""

    @property
    def members_size(self) -> int:
        """How many bytes the pieces have."""
        return sum(member.size for member in self.members)


class Entry(Struct, frozen=True, kw_only=True):
    """A model of the catalogue."""

    name: str
    aliases: tuple[str, ...] = ()
    title: str
    license: str
    memory: int
    """Bytes of memory it takes when it is loaded, about."""
    rank: int
    """`local:auto` takes the present model of the highest rank."""
    makes: Makes = "text"
    form: Literal["gguf", "bert"] = "gguf"
    """What the pieces of the wheels are, one after the other: the file itself, or the settings, words and
    weights of a BERT sentence model, of which the file is made."""
    size: int
    sha256: str
    """Of the file."""
    wheels: tuple[Wheel, ...]

    @property
    def fetch_size(self) -> int:
        """How many bytes there are to fetch."""
        return sum(wheel.size for wheel in self.wheels)


@cache
def catalogue() -> tuple[Entry, ...]:
    """The models, the best first."""
    text = resources.files("weft.llm.local").joinpath("catalogue.json").read_bytes()
    entries = msgspec.json.decode(text, type=tuple[Entry, ...])
    return tuple(sorted(entries, key=lambda entry: -entry.rank))


def find_entry(name: str) -> Entry:
    """The model of that name or alias."""
    for entry in catalogue():
        if name == entry.name or name in entry.aliases:
            return entry
    known = ", ".join(f"{entry.name} ({', '.join(entry.aliases)})" for entry in catalogue())
    raise NoSuchEmbeddedModel(f"there is no embedded model '{name}'; there are {known}")


def megabytes(size: int) -> str:
    """A size in words: 93 MB, 1.1 GB."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


PROVIDER = "local"
AUTO = "auto"


_HASH_CHUNK = 1 << 20


class LocalFile(Struct, frozen=True):
    """A model's file."""

    name: str
    """As in `local:NAME`."""
    path: Path

    @property
    def id(self) -> str:
        """`local:NAME`."""
        return f"{PROVIDER}:{self.name}"


def models_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where models are kept: `models` in `WEFT_CACHE`, else in the user's cache folder of weft."""
    return cache_folder(environment) / "models"


def file_of(entry: Entry, folder: Path | None = None) -> Path:
    """Where the model is, or will be."""
    return (folder or models_folder()) / f"{entry.name}.gguf"


def is_present(entry: Entry, folder: Path | None = None) -> bool:
    """Whether the model is here. Its contents were checked before it got its name."""
    try:
        return file_of(entry, folder).stat().st_size == entry.size
    except OSError:
        return False


class _Checked(Struct, frozen=True):
    """What a model's file was like when its contents were found to be right."""

    sha256: str
    size: int
    changed_at: int
    """In nanoseconds, by the file system: nobody can set it back."""
    inode: int


def require_unchanged(entry: Entry, folder: Path | None = None) -> None:
    """Raise ModelError when the contents of a model's file are not those that were fetched.

    The file is hashed only when it is not the one, in the state, that was hashed before.
    """
    file = file_of(entry, folder)
    if _noted(entry, folder) == _state(entry, file):
        return
    if sha256_of(file) != entry.sha256:
        raise ModelError(
            "configuration_error",
            f"the file of {entry.name} ({file}) was changed after it was fetched, and is not used; "
            f"{how_to_get(entry)} again",
        )
    note_checked(entry, folder)


def note_checked(entry: Entry, folder: Path | None = None) -> None:
    """Note that the contents of a model's file are right; where that cannot be written, it is not noted."""
    with suppress(OSError):
        content = msgspec.json.encode(_state(entry, file_of(entry, folder)))
        checked_file(entry, folder or models_folder()).write_bytes(content)


def _noted(entry: Entry, folder: Path | None) -> _Checked | None:
    try:
        content = checked_file(entry, folder or models_folder()).read_bytes()
        return msgspec.json.decode(content, type=_Checked)
    except (OSError, msgspec.DecodeError):
        return None


def _state(entry: Entry, file: Path) -> _Checked:
    found = file.stat()
    return _Checked(entry.sha256, found.st_size, found.st_ctime_ns, found.st_ino)


def best(makes: Makes, folder: Path | None = None) -> Entry:
    """The best model of its kind that is here, else the best one there is."""
    entries = [entry for entry in catalogue() if entry.makes == makes]
    return next((entry for entry in entries if is_present(entry, folder)), entries[0])


def locate(name: str = AUTO, folder: Path | None = None, makes: Makes = "text") -> LocalFile:
    """The file of `local:NAME`: the best one present for `auto`, a path of a GGUF file as it is."""
    if name == AUTO:
        entry = best(makes, folder)
        if is_present(entry, folder):
            require_unchanged(entry, folder)
            return LocalFile(entry.name, file_of(entry, folder))
        raise ModelError("configuration_error", f"no embedded model is here yet: {how_to_get(entry)}")
    if is_path(name):
        path = Path(name).expanduser()
        if not path.is_file():
            raise ModelError("configuration_error", f"there is no model file {path}")
        return LocalFile(name, path)
    try:
        entry = find_entry(name)
    except NoSuchEmbeddedModel as error:
        raise InvalidModel(
            "configuration_error", f"{error.message}; or a path, local:/path/to/file.gguf"
        ) from None
    check_makes(entry.name, entry.makes, makes)
    if not is_present(entry, folder):
        raise ModelError("configuration_error", f"{entry.name} is not here yet: {how_to_get(entry)}")
    require_unchanged(entry, folder)
    return LocalFile(entry.name, file_of(entry, folder))


def is_path(name: str) -> bool:
    """Whether `local:NAME` names a file, and no model of the catalogue."""
    return name.endswith(".gguf") or "/" in name


def missing_entry(name: str, folder: Path | None = None, makes: Makes = "text") -> Entry | None:
    """The model of the catalogue that `local:NAME` would need and that is not here. Raises ModelError."""
    try:
        entry = best(makes, folder) if name == AUTO else find_entry(name)
    except NoSuchEmbeddedModel:
        return None
    check_makes(entry.name, entry.makes, makes)
    return None if is_present(entry, folder) else entry


def check_makes(name: str, found: Makes, wanted: Makes) -> None:
    """Raise ModelError unless a model is of the kind that is needed."""
    if found == wanted:
        return
    does = "writes text and makes no embeddings" if found == "text" else "makes embeddings and writes no text"
    raise ModelError("configuration_error", f"{name} {does}; {best(wanted).name} does")


def how_to_get(entry: Entry) -> str:
    """The command that fetches a model, and how large it is."""
    alias = entry.aliases[0] if entry.aliases else entry.name
    return f"weft models pull {alias} fetches it ({megabytes(entry.fetch_size)})"


def partial_file(entry: Entry, folder: Path) -> Path:
    """What has been put together so far."""
    return folder / f"{entry.name}.partial"


def checked_file(entry: Entry, folder: Path) -> Path:
    """What the model's file was like when its contents were found to be right."""
    return folder / f"{entry.name}.checked"


def made_file(entry: Entry, folder: Path) -> Path:
    """What is being made of the pieces, where they are not the file itself."""
    return folder / f"{entry.name}.made"


def wheels_folder(entry: Entry, folder: Path) -> Path:
    """Packages on their way."""
    return folder / f"{entry.name}.wheels"


def sha256_of(path: Path) -> str:
    """The hash of a file of any size."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_HASH_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
