"""Writes a model in the GGUF format, which llama.cpp reads: facts, a list of tensors, their numbers.

The same facts and tensors always make the same bytes, so that the hash of what is made is known beforehand.
"""

import struct
from array import array
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import IO

from msgspec import Struct

ALIGNMENT = 32
"""Where tensors begin; readers take as much when the file says nothing."""

BLOCK = 32
"""How many numbers of a `Q8_0` tensor share a scale."""

_VERSION = 3
_UNSIGNED, _SIGNED, _FLOAT, _BOOL, _TEXT, _LIST = 4, 5, 6, 7, 8, 9


class Encoding(IntEnum):
    """How the numbers of a tensor are written."""

    F32 = 0
    Q8_0 = 8
    """Bytes, of which 32 share a scale: a quarter of the size."""

    def size(self, count: int) -> int:
        """How many bytes so many numbers take."""
        return 4 * count if self is Encoding.F32 else count // BLOCK * (2 + BLOCK)


class Tensor(Struct, frozen=True, kw_only=True):
    """A tensor whose numbers are read when it is its turn to be written."""

    name: str
    shape: tuple[int, ...]
    """Rows first."""
    encoding: Encoding
    numbers: Callable[[], "array[float]"]

    @property
    def count(self) -> int:
        """How many numbers there are."""
        total = 1
        for length in self.shape:
            total *= length
        return total


Fact = bool | int | float | str | Sequence[str] | Sequence[int]


def write(output: IO[bytes], facts: dict[str, Fact], tensors: Sequence[Tensor]) -> None:
    """Write the whole file; the numbers of one tensor at a time are in memory."""
    head = [struct.pack("<4sIQQ", b"GGUF", _VERSION, len(tensors), len(facts))]
    head += (_text(name) + _typed(value) for name, value in facts.items())
    begins = 0
    for tensor in tensors:
        lengths = tensor.shape[::-1]  # the one whose numbers are neighbours first
        head.append(_text(tensor.name) + struct.pack(f"<I{len(lengths)}Q", len(lengths), *lengths))
        head.append(struct.pack("<IQ", tensor.encoding, begins))
        begins += _aligned(tensor.encoding.size(tensor.count))
    _write_padded(output, head)
    for tensor in tensors:
        numbers = tensor.numbers()
        _write_padded(output, [floats(numbers)] if tensor.encoding is Encoding.F32 else blocks(numbers))


def floats(numbers: "array[float]") -> bytes:
    """The numbers as floats of 32 bits."""
    return struct.pack(f"<{len(numbers)}f", *numbers)


def blocks(numbers: "array[float]") -> Iterable[bytes]:
    """The numbers as `Q8_0`: for every 32 a scale, then a byte for each."""
    pack = struct.Struct(f"<e{BLOCK}b").pack
    for start in range(0, len(numbers), BLOCK):
        block = numbers[start : start + BLOCK]
        highest, lowest = max(block), min(block)
        scale = max(highest, -lowest) / 127
        inverse = 1 / scale if scale else 0.0
        # Adding before cutting off rounds, and is four times as fast as round().
        yield pack(scale, *[int(number * inverse + 128.5) - 128 for number in block])


def _write_padded(output: IO[bytes], pieces: Iterable[bytes]) -> None:
    size = 0
    for piece in pieces:
        output.write(piece)
        size += len(piece)
    output.write(bytes(_aligned(size) - size))


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _typed(value: Fact) -> bytes:
    match value:
        case bool():
            return struct.pack("<I?", _BOOL, value)
        case int():
            return struct.pack("<II", _UNSIGNED, value)
        case float():
            return struct.pack("<If", _FLOAT, value)
        case str():
            return struct.pack("<I", _TEXT) + _text(value)
    head = struct.pack("<IIQ", _LIST, _TEXT if isinstance(value[0], str) else _SIGNED, len(value))
    return head + b"".join(_text(one) if isinstance(one, str) else struct.pack("<i", one) for one in value)
