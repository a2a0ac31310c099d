"""The folder of the embedded models: which are here, and what `local:NAME` stands for."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from weft.cache_folder import cache_folder
from weft.llm.errors import ModelError
from weft.llm.local.catalogue import Entry, catalogue, find_entry, megabytes
from weft.llm.local.errors import NoSuchEmbeddedModel

AUTO = "auto"


class LocalFile(Struct, frozen=True):
    """A model's file."""

    name: str
    """As in `local:NAME`."""
    path: Path


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


def present(folder: Path | None = None) -> tuple[Entry, ...]:
    """The models that are here, the best first."""
    return tuple(entry for entry in catalogue() if is_present(entry, folder))


def locate(name: str = AUTO, folder: Path | None = None) -> LocalFile:
    """The file of `local:NAME`: the best one present for `auto`, a path of a GGUF file as it is."""
    if name == AUTO:
        if here := present(folder):
            return LocalFile(here[0].name, file_of(here[0], folder))
        raise ModelError(
            "configuration_error", f"no embedded model is here yet: {how_to_get(catalogue()[0])}"
        )
    if name.endswith(".gguf") or "/" in name:
        path = Path(name).expanduser()
        if not path.is_file():
            raise ModelError("configuration_error", f"there is no model file {path}")
        return LocalFile(name, path)
    try:
        entry = find_entry(name)
    except NoSuchEmbeddedModel as error:
        raise ModelError(
            "configuration_error", f"{error.message}; or a path, local:/path/to/file.gguf"
        ) from None
    if not is_present(entry, folder):
        raise ModelError("configuration_error", f"{entry.name} is not here yet: {how_to_get(entry)}")
    return LocalFile(entry.name, file_of(entry, folder))


def missing_entry(name: str, folder: Path | None = None) -> Entry | None:
    """The model of the catalogue that `local:NAME` would need and that is not here."""
    if name == AUTO:
        return None if present(folder) else catalogue()[0]
    try:
        entry = find_entry(name)
    except NoSuchEmbeddedModel:
        return None
    return None if is_present(entry, folder) else entry


def how_to_get(entry: Entry) -> str:
    """The command that fetches a model, and how large it is."""
    alias = entry.aliases[0] if entry.aliases else entry.name
    return f"weft models pull {alias} fetches it ({megabytes(entry.fetch_size)})"


def remove(entry: Entry, folder: Path | None = None) -> int:
    """Delete the model and what is left of pulls of it; the bytes that were freed."""
    freed = 0
    folder = folder or models_folder()
    for path in (file_of(entry, folder), partial_file(entry, folder)):
        try:
            size = path.stat().st_size
            path.unlink()
        except FileNotFoundError:
            continue
        freed += size
    shutil.rmtree(wheels_folder(entry, folder), ignore_errors=True)
    return freed


def partial_file(entry: Entry, folder: Path) -> Path:
    """What has been put together so far."""
    return folder / f"{entry.name}.partial"


def wheels_folder(entry: Entry, folder: Path) -> Path:
    """Packages on their way."""
    return folder / f"{entry.name}.wheels"
