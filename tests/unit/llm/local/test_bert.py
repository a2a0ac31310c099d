"""GGUF files that are made of published BERT models, in the runtime that reads them."""

import hashlib
import struct
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.model_packages import make_packages
from tests.tiny_bert import POSITIONS, SIZE, TinyBert, likeness
from weft.llm.errors import ModelError
from weft.llm.local.catalogue import Entry, Member, WrongContents, work_path
from weft.llm.local.download import pull
from weft.llm.local.embeddings import MetadataValue, make_gguf, write
from weft.llm.local.gguf import read_metadata
from weft.llm.local.models import EmbeddedModels

NESTED = struct.pack("<4sIQQQI", b"GGUF", 3, 0, 1, 0, 9) + struct.pack("<IQ", 9, 1) * 5_000
"""A list in a list in a list ..."""


def made(folder: Path, pieces: tuple[bytes, ...]) -> Path:
    source, target = folder / "pieces", folder / "tiny.gguf"
    source.write_bytes(b"".join(pieces))
    make_gguf(source, tuple(map(len, pieces)), target, "tiny")
    return target


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return made(tmp_path, TinyBert().pieces())


async def test_a_made_file_gives_the_vectors_of_the_published_weights(tiny: Path) -> None:
    model = await EmbeddedModels().find_embedding(f"local:{tiny}")

    found = await model.embed(["The cats run.", "dog zebra [SEP]"])

    assert (model.dimensions, model.context_window) == (SIZE, POSITIONS)
    bert = TinyBert()
    first = ["[CLS]", "the", "cat", "##s", "run", ".", "[SEP]"]
    # Marks in a text are only text: neither "[" nor "sep" is a word that this model knows.
    second = ["[CLS]", "dog", "[UNK]", "[UNK]", "[UNK]", "[UNK]", "[SEP]"]
    assert likeness(found.vectors[0], bert.vector(first)) > 0.99
    assert likeness(found.vectors[1], bert.vector(second)) > 0.99
    assert likeness(found.vectors[0], found.vectors[1]) < 0.9
    assert found.input_tokens == len(first) + len(second)


def test_the_same_pieces_make_the_same_bytes_which_say_what_the_model_is(tiny: Path) -> None:
    first = tiny.read_bytes()

    assert made(tiny.parent, TinyBert().pieces()).read_bytes() == first
    facts = read_metadata(tiny)
    assert (facts.makes, facts.context_length, facts.embedding_length) == ("embeddings", POSITIONS, SIZE)


def bert_entry(tiny: Path, folder: Path) -> Entry:
    """Return an entry of the catalogue whose pieces make up that file."""
    whole, packed = tiny.read_bytes(), make_packages(folder / "index")
    members = tuple(Member(path="piece", size=len(piece)) for piece in TinyBert().pieces())
    return msgspec.structs.replace(
        packed,
        wheels=(msgspec.structs.replace(packed.wheels[0], members=members),),
        form="bert",
        makes="embeddings",
        size=len(whole),
        sha256=hashlib.sha256(whole).hexdigest(),
    )


@pytest.mark.parametrize("piece", [0, 1, 2])
def test_pieces_that_are_no_model_are_refused(piece: int, tmp_path: Path) -> None:
    pieces = list(TinyBert().pieces())
    pieces[piece] = b"{}"

    with pytest.raises(WrongContents, match="tiny is not the expected model"):
        made(tmp_path, tuple(pieces))


@pytest.mark.parametrize(
    "contents", [b"", b"GGUF", b"no model" * 10, b"GGUF" + b"\xff" * 60, b"GGUF\3\0\0\0" + bytes(16), NESTED]
)
def test_a_file_that_is_no_model_is_told(contents: bytes, tmp_path: Path) -> None:
    (tmp_path / "wrong.gguf").write_bytes(contents)

    with pytest.raises(ModelError, match="it is not a GGUF model"):
        read_metadata(tmp_path / "wrong.gguf")
    with pytest.raises(ModelError, match="cannot be read: No such file"):
        read_metadata(tmp_path / "missing.gguf")


NAN = struct.pack("<f", float("nan"))


@pytest.mark.parametrize("damage", [bytes, lambda size: NAN * (size // 4) + bytes(size % 4)])
@pytest.mark.parametrize("piece", [0, 2])
def test_damaged_pieces_are_deleted(
    piece: int, damage: Callable[[int], bytes], tiny: Path, tmp_path: Path
) -> None:
    pieces = list(TinyBert().pieces())
    kept = len(pieces[piece]) // 2 if piece == 2 else 0  # of the weights their names, which come first
    pieces[piece] = pieces[piece][:kept] + damage(len(pieces[piece]) - kept)
    entry, folder = bert_entry(tiny, tmp_path), tmp_path / "models"
    folder.mkdir()
    work_path(entry, folder, "partial").write_bytes(b"".join(pieces))

    with pytest.raises(WrongContents, match="it has been deleted"):
        pull(entry, folder)

    assert {file.name for file in folder.iterdir()} == {"tiny.lock"}


@pytest.mark.parametrize("last", ["pooling_type", "embedding_length", "context_length"])
def test_facts_come_in_any_order(last: str, tmp_path: Path) -> None:
    facts: dict[str, MetadataValue] = {
        "tokenizer.ggml.token_type": [1, 2, 3],
        "general.architecture": "bert",
        "bert.context_length": 12,
        "bert.embedding_length": 34,
        "bert.pooling_type": 1,
        "tokenizer.ggml.tokens": ["a", "b"],
    }
    facts[f"bert.{last}"] = facts.pop(f"bert.{last}")
    with (tmp_path / "any.gguf").open("wb") as output:
        write(output, facts, [])

    found = read_metadata(tmp_path / "any.gguf")

    assert (found.makes, found.context_length, found.embedding_length) == ("embeddings", 12, 34)


@pytest.mark.parametrize("length", [["a", "b"], "many", float("inf"), float("nan")])
def test_a_length_that_is_none_is_told(length: MetadataValue, tmp_path: Path) -> None:
    facts: dict[str, MetadataValue] = {
        "general.architecture": "x",
        "x.context_length": length,
        "x.embedding_length": 3,
    }
    with (tmp_path / "any.gguf").open("wb") as output:
        write(output, facts, [])

    with pytest.raises(ModelError, match="it is not a GGUF model"):
        read_metadata(tmp_path / "any.gguf")


def test_a_pull_that_has_all_pieces_makes_the_file_and_leaves_nothing_else(
    tiny: Path, tmp_path: Path
) -> None:
    whole, pieces = tiny.read_bytes(), TinyBert().pieces()
    entry, folder = bert_entry(tiny, tmp_path), tmp_path / "models"
    folder.mkdir()
    work_path(entry, folder, "partial").write_bytes(b"".join(pieces))  # as a killed pull has left it

    assert pull(entry, folder).read_bytes() == whole
    assert {file.name for file in folder.iterdir()} == {"tiny.gguf", "tiny.lock", "tiny.checked"}

    work_path(entry, folder, "partial").write_bytes(b"".join(pieces))
    with pytest.raises(WrongContents, match=r"assembled file.*deleted"):
        pull(msgspec.structs.replace(entry, sha256="0" * 64), folder)
    assert {file.name for file in folder.iterdir()} == {"tiny.lock"}
