"""The embedded embedding model, and its conversion to GGUF.

The same facts and tensors always make the same bytes, so that the hash of what is made is known beforehand.
"""

import base64
import struct
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct

from weft.llm.errors import ContextTooLong
from weft.llm.local.catalogue import LocalFile, WrongContents
from weft.llm.local.runtime import Runtime

TEXTS_AT_ONCE = 8
"""Texts that are embedded in one turn: whoever else waits comes in between."""

MIN_TOKENS = 3
"""Of a text that is cut: one of its own between the two that the model sets at its ends."""


class Embeddings(Struct, frozen=True):
    """The vectors of some texts, each of length one, and how many tokens were read for them."""

    vectors: list[list[float]]
    input_tokens: int


class EmbeddingModel:
    """A loaded model. Calls come from any event loop or thread; their batches are answered in order."""

    def __init__(self, file: LocalFile, runtime: Runtime, *, dimensions: int) -> None:
        self._file = file
        self._runtime = runtime
        self.dimensions = dimensions

    @property
    def id(self) -> str:
        return self._file.id

    @property
    def path(self) -> Path:
        """Its file."""
        return self._file.path

    @property
    def context_window(self) -> int:
        """How many tokens a text may have, with those that the model sets at its ends."""
        return self._runtime.settings.context_window

    async def embed(self, texts: Sequence[str], *, max_tokens: int | None = None) -> Embeddings:
        """A vector for each text. A text of more than `max_tokens` is cut; without, it must fit the window.

        Raises ContextTooLong, ModelError, and ValueError for a `max_tokens` below three. Cancelling it stops
        the model after the text that it reads.
        """
        if max_tokens is not None and max_tokens < MIN_TOKENS:
            raise ValueError(
                f"max_tokens is {max_tokens}; a text has at least {MIN_TOKENS} with its two ends"
            )
        texts = [text.encode("utf-8", "replace").decode() for text in texts]  # halves of letters are none
        vectors: list[list[float]] = []
        tokens = 0
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            inputs = await self._fitting(texts[start : start + TEXTS_AT_ONCE], start, max_tokens)
            answer = await self._runtime.embeddings(inputs)
            vectors += (_vector(row) for row in sorted(answer["data"], key=lambda row: row["index"]))
            tokens += answer["usage"]["prompt_tokens"]
        return Embeddings(vectors, tokens)

    async def _fitting(
        self, texts: Sequence[str], start: int, max_tokens: int | None
    ) -> list[str | list[int]]:
        """The texts; of those that may be too long or hold marks their tokens, as many as fit."""
        limit = min(self.context_window if max_tokens is None else max_tokens, self.context_window)
        inputs: list[str | list[int]] = list(texts)
        places = [place for place, text in enumerate(texts) if not _is_plain(text, limit)]
        counted = await self._runtime.tokens_of([texts[place] for place in places]) if places else []
        for place, tokens in zip(places, counted, strict=True):
            if len(tokens) > limit and max_tokens is None:
                message = f"text {start + place + 1} has {len(tokens)} tokens"
                raise ContextTooLong("llm_error", f"{message}; {self._file.name} reads {limit} at once")
            # The last one is the mark of the end.
            inputs[place] = tokens if len(tokens) <= limit else [*tokens[: limit - 1], tokens[-1]]
        return inputs


def _vector(row: dict[str, Any]) -> list[float]:
    return array("f", base64.b64decode(row["embedding"])).tolist()


def _is_plain(text: str, limit: int) -> bool:
    """Whether the runtime can be given the text as it is: it fits, and has no `[SEP]`, `</s>` or the like.

    A token has a byte at least, but for what a model adds at the ends, or takes letters apart into.
    """
    return 2 * len(text.encode()) <= limit and "[" not in text and "<" not in text


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


_MEAN_POOLING = 1
_Q8_0_FILE = 7
_NORMAL, _CONTROL = 1, 3
_WORD_START = "\u2581"

_OUTER = {
    "embeddings.word_embeddings.weight": "token_embd.weight",
    "embeddings.position_embeddings.weight": "position_embd.weight",
    "embeddings.token_type_embeddings.weight": "token_types.weight",
    "embeddings.LayerNorm": "token_embd_norm",
}
_OF_LAYER = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
_KEPT_WHOLE = ("position_embd.weight", "token_types.weight")
"""They are added up and not multiplied with: the runtime wants them as floats."""


class Settings(Struct, frozen=True):
    """What is needed of `config.json`."""

    hidden_size: int
    intermediate_size: int
    layer_norm_eps: float
    max_position_embeddings: int
    num_attention_heads: int
    num_hidden_layers: int
    type_vocab_size: int


class _Place(Struct, frozen=True):
    """Where `model.safetensors` has a tensor."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def make_gguf(source: Path, sizes: tuple[int, ...], target: Path, name: str) -> None:
    """Write the model that `source` has in three pieces of these sizes: settings, words, weights.

    They are `config.json`, `vocab.txt` and `model.safetensors`. The mean of the words' vectors is what such
    a model makes of a text. Raises WrongContents.
    """
    with source.open("rb") as pieces, target.open("wb") as output:
        try:
            settings = msgspec.json.decode(pieces.read(sizes[0]), type=Settings)
            words = pieces.read(sizes[1]).decode().removesuffix("\n").split("\n")
            write(output, _facts(name, settings, words), list(_tensors(pieces, settings)))
        except (ValueError, KeyError, OverflowError, struct.error) as error:
            raise WrongContents(f"{name} is not the model it should be: {error}") from error


def _facts(name: str, settings: Settings, words: list[str]) -> dict[str, Fact]:
    special = {word: number for number, word in enumerate(words) if _is_special(word)}
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
        "tokenizer.ggml.tokens": [_in_runtime(word) for word in words],
        "tokenizer.ggml.token_type": [_CONTROL if word in special else _NORMAL for word in words],
        "tokenizer.ggml.token_type_count": settings.type_vocab_size,
        "tokenizer.ggml.bos_token_id": special["[CLS]"],
        "tokenizer.ggml.cls_token_id": special["[CLS]"],
        "tokenizer.ggml.eos_token_id": special["[SEP]"],
        "tokenizer.ggml.seperator_token_id": special["[SEP]"],  # its name in the format
        "tokenizer.ggml.unknown_token_id": special["[UNK]"],
        "tokenizer.ggml.padding_token_id": special["[PAD]"],
        "tokenizer.ggml.mask_token_id": special["[MASK]"],
    }


def _is_special(word: str) -> bool:
    return word in ("[CLS]", "[SEP]", "[UNK]", "[PAD]", "[MASK]")


def _in_runtime(word: str) -> str:
    """A word of the vocabulary as llama.cpp has it: it marks where words begin, BERT where they go on."""
    if word.startswith("[") and word.endswith("]"):
        return word
    return word.removeprefix("##") if word.startswith("##") else _WORD_START + word


def _tensors(pieces: IO[bytes], settings: Settings) -> Iterator[Tensor]:
    """The tensors that the runtime knows, in its order; the pooler is no part of a sentence model."""
    (length,) = struct.unpack("<Q", pieces.read(8))
    header = msgspec.json.decode(pieces.read(length), type=dict[str, msgspec.Raw])
    begins = pieces.tell()
    for name, called in _names(settings.num_hidden_layers):
        place = msgspec.json.decode(header[name], type=_Place)
        if place.dtype != "F32":
            raise ValueError(f"{name} is {place.dtype}")
        is_kept = called in _KEPT_WHOLE or len(place.shape) < 2 or place.shape[-1] % BLOCK
        yield Tensor(
            name=called,
            shape=place.shape,
            encoding=Encoding.F32 if is_kept else Encoding.Q8_0,
            numbers=partial(_numbers, pieces, begins, place),
        )


def _names(layers: int) -> Iterator[tuple[str, str]]:
    """The names of the tensors, as published and in the runtime."""
    pairs = dict(_OUTER)
    for layer in range(layers):
        pairs |= {f"encoder.layer.{layer}.{old}": f"blk.{layer}.{new}" for old, new in _OF_LAYER.items()}
    for old, new in pairs.items():
        if old.endswith(".weight"):
            yield old, new
        else:
            yield from ((f"{old}.{part}", f"{new}.{part}") for part in ("weight", "bias"))


def _numbers(pieces: IO[bytes], begins: int, place: _Place) -> "array[float]":
    first, last = place.data_offsets
    pieces.seek(begins + first)
    numbers = array("f", pieces.read(last - first))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
