"""Reads the metadata of a GGUF file before the model is loaded."""

import os
import struct
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from weft.limits import decode_text
from weft.llm.errors import ModelError
from weft.llm.local.catalogue import Makes

_LIST, _TEXT = 9, 8
_FIXED_SIZE_FORMATS = dict(zip((*range(8), 10, 11, 12), "BbHhIif?Qqd", strict=True))
"""`struct` format characters of the fixed-size value types, by GGUF type number."""
_MAX_TEXT_BYTES = 1_000_000
_NO_POOLING = 0
_RANK_POOLING = 4


class ModelMetadata(Struct, frozen=True, kw_only=True):
    """The metadata of a GGUF file that weft uses."""

    makes: Makes
    """Embeddings if the file declares that token vectors are pooled to one vector, otherwise text."""
    context_length: int
    """The context window that the model was trained with, in tokens."""
    embedding_length: int
    """Number of dimensions of a vector."""


def read_metadata(path: Path) -> ModelMetadata:
    """Read the metadata of a model file. Raise ModelError if it is not a GGUF file."""
    try:
        with path.open("rb") as file:
            found = _read_header(file)
        kind = found["general.architecture"]
        pooling = found.get(f"{kind}.pooling_type", _NO_POOLING)
        return ModelMetadata(
            makes="text" if pooling in (_NO_POOLING, _RANK_POOLING) else "embeddings",
            context_length=int(found[f"{kind}.context_length"]),
            embedding_length=int(found[f"{kind}.embedding_length"]),
        )
    except OSError as error:
        raise ModelError("configuration_error", f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, struct.error) as error:
        raise ModelError("configuration_error", f"{path} cannot be loaded: it is not a GGUF model") from error


def _read_header(file: IO[bytes]) -> dict[str, Any]:
    """Read the key-value pairs of the header, without lists, which are long and not needed."""
    magic, _, _, count = struct.unpack("<4sIQQ", file.read(24))
    if magic != b"GGUF":
        raise ValueError(magic)
    found: dict[str, Any] = {}
    for _ in range(count):
        name = _read_text(file)
        (kind,) = struct.unpack("<I", file.read(4))
        if kind == _LIST:
            _skip_list(file)
        else:
            found[name] = _read_value(file, kind)
    return found


def _read_value(file: IO[bytes], kind: int) -> Any:
    if kind == _TEXT:
        return _read_text(file)
    form = "<" + _FIXED_SIZE_FORMATS[kind]
    (value,) = struct.unpack(form, file.read(struct.calcsize(form)))
    return value


def _skip_list(file: IO[bytes]) -> None:
    """Skip to the end of a list; strings and nested lists are read, because their lengths differ."""
    inner, count = struct.unpack("<IQ", file.read(12))
    if inner in _FIXED_SIZE_FORMATS:
        file.seek(count * struct.calcsize("<" + _FIXED_SIZE_FORMATS[inner]), os.SEEK_CUR)
        return
    skip_element = {_LIST: _skip_list, _TEXT: _read_text}[inner]
    for _ in range(count):
        skip_element(file)


def _read_text(file: IO[bytes]) -> str:
    (length,) = struct.unpack("<Q", file.read(8))
    if length > _MAX_TEXT_BYTES:
        raise ValueError(length)
    return decode_text(file.read(length))
