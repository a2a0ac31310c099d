"""Makes a GGUF file of a BERT sentence model as its authors publish it: settings, words, weights."""

import struct
import sys
from array import array
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from weft.llm.local.errors import WrongContents
from weft.llm.local.gguf import BLOCK, Encoding, Fact, Tensor, write

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
