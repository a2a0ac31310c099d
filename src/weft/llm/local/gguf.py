"""What a GGUF file says of the model in it, read before it is loaded."""

import os
import struct
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from weft.llm.errors import ModelError
from weft.llm.local.catalogue import AUTO, PROVIDER, Makes, NoSuchEmbeddedModel, find_entry, is_path

_LIST, _TEXT = 9, 8
_FIXED = dict(zip((*range(8), 10, 11, 12), "BbHhIif?Qqd", strict=True))
"""By their number in the format: how values of a fixed size are written."""
_MAX_TEXT = 1_000_000
_NO_POOLING = 0
_RANKING = 4


class ModelFacts(Struct, frozen=True, kw_only=True):
    """What is needed of a file's facts."""

    makes: Makes
    """A model that says how the vectors of words become one makes embeddings."""
    context_length: int
    """How many tokens it was trained to read at once."""
    embedding_length: int


def kind_of(name: str) -> Makes:
    """What the model of `local:NAME` or `NAME` makes, whether it is here or not.

    Raises NoSuchEmbeddedModel, ModelError.
    """
    name = name.removeprefix(f"{PROVIDER}:")
    if name == AUTO:
        return "text"
    if is_path(name):
        path = Path(name).expanduser()
        if not path.exists():
            raise NoSuchEmbeddedModel(f"there is no model file {path}")
        return read_facts(path).makes
    return find_entry(name).makes


def read_facts(path: Path) -> ModelFacts:
    """What the file says. Raises ModelError when it is no GGUF file."""
    try:
        with path.open("rb") as file:
            found = _facts(file)
        kind = found["general.architecture"]
        pooling = found.get(f"{kind}.pooling_type", _NO_POOLING)
        return ModelFacts(
            makes="text" if pooling in (_NO_POOLING, _RANKING) else "embeddings",
            context_length=int(found[f"{kind}.context_length"]),
            embedding_length=int(found[f"{kind}.embedding_length"]),
        )
    except OSError as error:
        raise ModelError("configuration_error", f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, struct.error) as error:
        raise ModelError("configuration_error", f"{path} cannot be loaded: it is no GGUF model") from error


def _facts(file: IO[bytes]) -> dict[str, Any]:
    """The facts, in whatever order they come; lists, which are long and not needed, are passed over."""
    magic, _, _, count = struct.unpack("<4sIQQ", file.read(24))
    if magic != b"GGUF":
        raise ValueError(magic)
    found: dict[str, Any] = {}
    for _ in range(count):
        name = _text(file)
        (kind,) = struct.unpack("<I", file.read(4))
        if kind == _LIST:
            _pass_list(file)
        else:
            found[name] = _value(file, kind)
    return found


def _value(file: IO[bytes], kind: int) -> Any:
    if kind == _TEXT:
        return _text(file)
    form = "<" + _FIXED[kind]
    (value,) = struct.unpack(form, file.read(struct.calcsize(form)))
    return value


def _pass_list(file: IO[bytes]) -> None:
    """Go to the end of a list; one of texts, as a model's words are, has to be read for that."""
    inner, count = struct.unpack("<IQ", file.read(12))
    if inner in _FIXED:
        file.seek(count * struct.calcsize("<" + _FIXED[inner]), os.SEEK_CUR)
        return
    pass_one = {_LIST: _pass_list, _TEXT: _text}[inner]
    for _ in range(count):
        pass_one(file)


def _text(file: IO[bytes]) -> str:
    (length,) = struct.unpack("<Q", file.read(8))
    if length > _MAX_TEXT:
        raise ValueError(length)
    return file.read(length).decode("utf-8", "replace")
