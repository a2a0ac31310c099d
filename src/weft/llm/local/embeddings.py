"""Embedding models that run on this machine, and the conversion of BERT sentence models to GGUF.

The conversion is deterministic, so that the catalogue can have the hash of the converted file.
"""

import base64
import struct
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from functools import partial
from math import prod
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from weft.llm.errors import ContextTooLong
from weft.llm.local.catalogue import LocalFile, WrongContents
from weft.llm.local.runtime import Runtime

TEXTS_AT_ONCE = 8
"""Number of texts that are embedded in one batch; other requests can run between batches."""

MIN_TOKENS = 3
"""Least `max_tokens`: one token of the text between the model's start and end tokens."""


class Embeddings(Struct, frozen=True):
    """The unit vectors of some texts, in order, and the number of input tokens."""

    vectors: list[list[float]]
    input_tokens: int


class EmbeddingModel:
    """A loaded embedding model. Callers may be in any event loop or thread; batches are served in order."""

    def __init__(self, file: LocalFile, runtime: Runtime, *, dimensions: int) -> None:
        self._file = file
        self._runtime = runtime
        self.dimensions = dimensions

    @property
    def id(self) -> str:
        return self._file.id

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def context_window(self) -> int:
        """Return the most tokens that a text may have, including the model's start and end tokens."""
        return self._runtime.settings.context_window

    async def embed(self, texts: Sequence[str], *, max_tokens: int | None = None) -> Embeddings:
        """Return a vector for each text. Texts are truncated to `max_tokens`; if None, they must fit.

        Raise ContextTooLong, ModelError, and ValueError for a `max_tokens` below three. Cancellation stops
        the model after the current text.
        """
        if max_tokens is not None and max_tokens < MIN_TOKENS:
            raise ValueError(
                f"max_tokens is {max_tokens}; the minimum is {MIN_TOKENS}, including the start and end tokens"
            )
        vectors: list[list[float]] = []
        tokens = 0
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            inputs = await self._fit(texts[start : start + TEXTS_AT_ONCE], start, max_tokens)
            response = await self._runtime.embeddings(inputs)
            rows = sorted(response["data"], key=lambda row: row["index"])
            vectors += (array("f", base64.b64decode(row["embedding"])).tolist() for row in rows)
            tokens += response["usage"]["prompt_tokens"]
        return Embeddings(vectors, tokens)

    async def _fit(self, texts: Sequence[str], start: int, max_tokens: int | None) -> list[str | list[int]]:
        """Return the inputs of a batch: token lists for texts that may be too long or contain special tokens.

        `start` is the index of the first text, for the message of ContextTooLong.
        """
        limit = min(self.context_window if max_tokens is None else max_tokens, self.context_window)
        inputs: list[str | list[int]] = list(texts)
        indexes = [index for index, text in enumerate(texts) if not _is_plain(text, limit)]
        tokenized = await self._runtime.tokenize([texts[index] for index in indexes]) if indexes else []
        for index, tokens in zip(indexes, tokenized, strict=True):
            if len(tokens) > limit and max_tokens is None:
                message = f"text {start + index + 1} has {len(tokens)} tokens"
                raise ContextTooLong("llm_error", f"{message}; {self._file.name} reads at most {limit}")
            # A truncated text keeps the last token, which is the end token.
            inputs[index] = tokens if len(tokens) <= limit else [*tokens[: limit - 1], tokens[-1]]
        return inputs


def _is_plain(text: str, limit: int) -> bool:
    """Return True if the text surely fits and has no special tokens such as `[SEP]` or `</s>`.

    A token takes at least one byte. The factor 2 allows for start and end tokens and for letters that a
    tokenizer decomposes.
    """
    return 2 * len(text.encode()) <= limit and "[" not in text and "<" not in text


ALIGNMENT = 32
"""Alignment of tensors in bytes: the default of the format."""

BLOCK = 32
"""Number of values of a `Q8_0` tensor that share a scale."""

_VERSION = 3
_UNSIGNED, _SIGNED, _FLOAT, _BOOL, _TEXT, _LIST = 4, 5, 6, 7, 8, 9


class Encoding(IntEnum):
    """GGUF tensor encodings."""

    F32 = 0
    Q8_0 = 8
    """One byte per value, and a scale for each 32 values: about a quarter of the size of F32."""

    def size(self, count: int) -> int:
        """Return the encoded size of `count` values in bytes."""
        return 4 * count if self is Encoding.F32 else count // BLOCK * (2 + BLOCK)


class Tensor(Struct, frozen=True, kw_only=True):
    """A tensor to write. `numbers` reads its values, and is called only when the tensor is written."""

    name: str
    shape: tuple[int, ...]
    """Lengths of the dimensions, the fastest-varying one last."""
    encoding: Encoding
    numbers: Callable[[], "array[float]"]

    @property
    def count(self) -> int:
        return prod(self.shape)


MetadataValue = bool | int | float | str | Sequence[str] | Sequence[int]


def write(output: IO[bytes], metadata: dict[str, MetadataValue], tensors: Sequence[Tensor]) -> None:
    """Write a GGUF file, with the values of one tensor at a time in memory."""
    head = [struct.pack("<4sIQQ", b"GGUF", _VERSION, len(tensors), len(metadata))]
    head += (_text(name) + _typed(value) for name, value in metadata.items())
    offset = 0
    for tensor in tensors:
        lengths = tensor.shape[::-1]  # GGUF has the fastest-varying dimension first
        head.append(_text(tensor.name) + struct.pack(f"<I{len(lengths)}Q", len(lengths), *lengths))
        head.append(struct.pack("<IQ", tensor.encoding, offset))
        offset += _aligned(tensor.encoding.size(tensor.count))
    _write_padded(output, head)
    for tensor in tensors:
        numbers = tensor.numbers()
        _write_padded(output, [floats(numbers)] if tensor.encoding is Encoding.F32 else blocks(numbers))


def floats(numbers: "array[float]") -> bytes:
    """Encode the values as 32-bit floats."""
    return struct.pack(f"<{len(numbers)}f", *numbers)


def blocks(numbers: "array[float]") -> Iterable[bytes]:
    """Encode the values as `Q8_0`: yield blocks of a scale and 32 bytes."""
    pack = struct.Struct(f"<e{BLOCK}b").pack
    for start in range(0, len(numbers), BLOCK):
        block = numbers[start : start + BLOCK]
        highest, lowest = max(block), min(block)
        scale = max(highest, -lowest) / 127
        inverse = 1 / scale if scale else 0.0
        # `int` truncates, so adding 128.5 to a number above -128 rounds it, four times as fast as round().
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


def _typed(value: MetadataValue) -> bytes:
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


_MEAN_POOLING = 1
_Q8_0_FILE = 7
_NORMAL, _CONTROL = 1, 3
_WORD_START = "\u2581"
_SPECIAL_TOKENS = ("[CLS]", "[SEP]", "[UNK]", "[PAD]", "[MASK]")

_MODEL_TENSORS = {
    "embeddings.word_embeddings.weight": "token_embd.weight",
    "embeddings.position_embeddings.weight": "position_embd.weight",
    "embeddings.token_type_embeddings.weight": "token_types.weight",
    "embeddings.LayerNorm": "token_embd_norm",
}
"""Tensor names outside the layers, in safetensors and in GGUF."""
_LAYER_TENSORS = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
"""Tensor names of each layer, in safetensors and in GGUF."""
_KEPT_AS_F32 = ("position_embd.weight", "token_types.weight")
"""Tensors that the runtime requires as F32, because it adds them and does not multiply by them."""


class Settings(Struct, frozen=True):
    """The fields of `config.json` that the conversion uses."""

    hidden_size: int
    intermediate_size: int
    layer_norm_eps: float
    max_position_embeddings: int
    num_attention_heads: int
    num_hidden_layers: int
    type_vocab_size: int


class _TensorHeader(Struct, frozen=True):
    """The header entry of a tensor in `model.safetensors`."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def make_gguf(source: Path, sizes: tuple[int, ...], target: Path, name: str) -> None:
    """Convert a BERT sentence model with mean pooling to GGUF. Raise WrongContents.

    `source` is the concatenation of `config.json`, `vocab.txt` and `model.safetensors`, with these sizes.
    """
    with source.open("rb") as pieces, target.open("wb") as output:
        try:
            settings = msgspec.json.decode(pieces.read(sizes[0]), type=Settings)
            words = pieces.read(sizes[1]).decode().removesuffix("\n").split("\n")
            write(output, _metadata(name, settings, words), list(_tensors(pieces, settings)))
        except (ValueError, KeyError, OverflowError, struct.error) as error:
            raise WrongContents(f"{name} is not the expected model: {error}") from error


def _metadata(name: str, settings: Settings, words: list[str]) -> dict[str, MetadataValue]:
    special = {word: number for number, word in enumerate(words) if word in _SPECIAL_TOKENS}
    return {
        "general.architecture": "bert",
        "general.name": name,
        "general.file_type": _Q8_0_FILE,
        "bert.block_count": settings.num_hidden_layers,
        "bert.context_length": settings.max_position_embeddings,
        "bert.embedding_length": settings.hidden_size,
        "bert.feed_forward_length": settings.intermediate_size,
        "bert.attention.head_count": settings.num_attention_heads,
        "bert.attention.layer_norm_epsilon": settings.layer_norm_eps,
        "bert.attention.causal": False,
        "bert.pooling_type": _MEAN_POOLING,
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.tokens": [_to_llama_token(word) for word in words],
        "tokenizer.ggml.token_type": [_CONTROL if word in special else _NORMAL for word in words],
        "tokenizer.ggml.token_type_count": settings.type_vocab_size,
        "tokenizer.ggml.bos_token_id": special["[CLS]"],
        "tokenizer.ggml.cls_token_id": special["[CLS]"],
        "tokenizer.ggml.eos_token_id": special["[SEP]"],
        "tokenizer.ggml.seperator_token_id": special["[SEP]"],  # spelled so in the format
        "tokenizer.ggml.unknown_token_id": special["[UNK]"],
        "tokenizer.ggml.padding_token_id": special["[PAD]"],
        "tokenizer.ggml.mask_token_id": special["[MASK]"],
    }


def _to_llama_token(word: str) -> str:
    """Convert a vocabulary entry: llama.cpp marks the start of a word, BERT its continuation (`##`)."""
    if word.startswith("[") and word.endswith("]"):
        return word
    return word.removeprefix("##") if word.startswith("##") else _WORD_START + word


def _tensors(pieces: IO[bytes], settings: Settings) -> Iterator[Tensor]:
    """Yield the tensors in the order of the file, without the pooler, which sentence models do not use."""
    (length,) = struct.unpack("<Q", pieces.read(8))
    header = msgspec.json.decode(pieces.read(length), type=dict[str, msgspec.Raw])
    offset = pieces.tell()
    for name, gguf_name in _names(settings.num_hidden_layers):
        tensor = msgspec.json.decode(header[name], type=_TensorHeader)
        if tensor.dtype != "F32":
            raise ValueError(f"{name} is {tensor.dtype}")
        is_f32 = gguf_name in _KEPT_AS_F32 or len(tensor.shape) < 2 or tensor.shape[-1] % BLOCK
        yield Tensor(
            name=gguf_name,
            shape=tensor.shape,
            encoding=Encoding.F32 if is_f32 else Encoding.Q8_0,
            numbers=partial(_read_values, pieces, offset, tensor),
        )


def _names(layers: int) -> Iterator[tuple[str, str]]:
    """Yield the name of each tensor in safetensors, and its name in GGUF."""
    pairs = dict(_MODEL_TENSORS)
    for layer in range(layers):
        pairs |= {f"encoder.layer.{layer}.{old}": f"blk.{layer}.{new}" for old, new in _LAYER_TENSORS.items()}
    for old, new in pairs.items():
        if old.endswith(".weight"):
            yield old, new
        else:
            yield from ((f"{old}.{part}", f"{new}.{part}") for part in ("weight", "bias"))


def _read_values(pieces: IO[bytes], offset: int, tensor: _TensorHeader) -> "array[float]":
    first, last = tensor.data_offsets
    pieces.seek(offset + first)
    numbers = array("f", pieces.read(last - first))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
