"""The folder of the embedded models: which are here, and what `local:NAME` stands for."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from weft.cache_folder import cache_folder
from weft.llm.errors import InvalidModel, ModelError
from weft.llm.local.catalogue import Entry, Makes, catalogue, find_entry, megabytes
from weft.llm.local.errors import NoSuchEmbeddedModel
from weft.llm.local.wheels import sha256_of

PROVIDER = "local"
AUTO = "auto"


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
