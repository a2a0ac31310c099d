"""Matches by words in a new order by meaning; vectors that are made once."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from weft.memory.index.index import SqliteIndex
from weft.memory.protocol import Chunk, Query, QueryPart
from weft.memory.search.hybrid import HybridMatcher, Vectors
from weft.memory.search.matcher import LexicalMatcher

FILES = {
    "fire.py": "quota = quota + quota + quota  # fire\n",
    "pets.py": "quota = quota  # cat\n",
    "named.py": "x = 1\n",
} | {f"other{number}.py": "limit = quota\n" for number in range(4)}


class PetEmbedder:
    """Pets, everything else, and fire, which is farthest from pets."""

    id = "pets"

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[tuple[float, float]]:
        self.texts += texts
        return [_vector(text) for text in texts]


def _vector(text: str) -> tuple[float, float]:
    if "fire" in text:
        return (-1.0, 0.0)
    return (1.0, 0.0) if "cat" in text or "animal" in text else (0.0, 1.0)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SqliteIndex]:
    for path, text in FILES.items():
        (tmp_path / "root").mkdir(exist_ok=True)
        (tmp_path / "root" / path).write_text(text)
    index = SqliteIndex(tmp_path / "index.db")
    index.update([tmp_path / "root"])
    yield index
    index.close()


@pytest.fixture
def embedder() -> PetEmbedder:
    return PetEmbedder()


@pytest.fixture
def vectors(index: SqliteIndex, embedder: PetEmbedder) -> Vectors:
    return Vectors(index, embedder)


@pytest.fixture
def lexical(index: SqliteIndex) -> Iterator[LexicalMatcher]:
    matcher = LexicalMatcher(index)
    yield matcher
    matcher.close()


def query(text: str, limit: int = 20) -> Query:
    return Query(parts=(QueryPart(text),), limit=limit)


def test_meaning_changes_the_order_and_scores_still_fall(
    lexical: LexicalMatcher, embedder: PetEmbedder, vectors: Vectors
) -> None:
    asked = query("quota of an animal")
    before = [match.chunk.path for match in lexical.match(asked)]

    matches = HybridMatcher(lexical, embedder, vectors).match(asked)

    assert before[:2] == ["fire.py", "pets.py"]
    assert next(match.chunk.path for match in matches) == "pets.py"
    assert sorted(match.chunk.path for match in matches) == sorted(before)
    scores = [match.score for match in matches]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_a_file_that_the_query_names_stays_first(
    lexical: LexicalMatcher, embedder: PetEmbedder, vectors: Vectors
) -> None:
    matches = HybridMatcher(lexical, embedder, vectors).match(query("animal quota in named.py"))

    assert matches[0].chunk.path == "named.py"


def test_a_chunk_is_embedded_once(
    lexical: LexicalMatcher, embedder: PetEmbedder, vectors: Vectors, index: SqliteIndex
) -> None:
    HybridMatcher(lexical, embedder, vectors).match(query("quota"))
    first = len(embedder.texts)

    HybridMatcher(lexical, embedder, Vectors(index, embedder)).match(query("quota"))

    assert first == 7  # six chunks and the question
    assert embedder.texts[first:] == ["quota"]


def kept(index: SqliteIndex) -> list[str]:
    """Of which embedders vectors are kept."""
    return [row[0] for row in index.connection.execute("SELECT embedder FROM memory_vectors")]


@pytest.mark.parametrize("path", ["pets.py", "gone.py"])
def test_vectors_come_back_as_they_were_made(
    embedder: PetEmbedder, vectors: Vectors, index: SqliteIndex, path: str
) -> None:
    root = str(index.path.parent / "root")
    pieces = [
        Chunk(root=root, path=path, first_line=1, last_line=1, text=text) for text in ("cat", "table", "cat")
    ]
    made = vectors.embed(pieces)

    assert [list(vector) for vector in made] == [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    assert made == vectors.embed(pieces)
    assert len(kept(index)) == (2 if path == "pets.py" else 0)


def test_vectors_go_with_what_they_were_made_of(
    lexical: LexicalMatcher, embedder: PetEmbedder, vectors: Vectors, index: SqliteIndex
) -> None:
    root = index.path.parent / "root"
    matcher = HybridMatcher(lexical, embedder, vectors)
    matcher.match(query("quota"))
    assert kept(index) == ["pets"] * 6

    (root / "fire.py").unlink()
    (root / "pets.py").write_text("quota = quota + 1  # dog\n")
    index.update([root])
    assert kept(index) == ["pets"] * 4
    matcher.match(query("quota"))
    assert kept(index) == ["pets"] * 5

    embedder.id = "other pets"
    matcher.match(query("quota"))
    assert kept(index) == ["other pets"] * 5
    index.drop([root])
    assert kept(index) == []


def test_the_limit_is_kept(lexical: LexicalMatcher, embedder: PetEmbedder, vectors: Vectors) -> None:
    assert len(HybridMatcher(lexical, embedder, vectors).match(query("quota", limit=1))) == 1
    assert HybridMatcher(lexical, embedder, vectors).match(query("nothing here")) == []
