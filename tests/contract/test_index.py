"""What every index and its matcher do, whoever keeps the files."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from weft.memory.index.index import SqliteIndex
from weft.memory.protocol import Index, IndexProgress, Match, Matcher, Query, QueryPart, Strategy
from weft.memory.search.matcher import LexicalMatcher
from weft.testing.simple_index import SimpleIndex


class Opened(NamedTuple):
    kept: Index
    matcher: Matcher


def in_memory(folder: Path) -> Opened:
    index = SimpleIndex()
    return Opened(index, index)


def sqlite(folder: Path) -> Opened:
    index = SqliteIndex(folder / "index.db")
    return Opened(index, LexicalMatcher(index))


@pytest.fixture(params=[in_memory, sqlite])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    make: Callable[[Path], Opened] = request.param
    found = make(tmp_path)
    yield found
    found.kept.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a few files that differ in every way that counts."""
    folder = tmp_path / "root"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "prices.py").write_text('"""Prices."""\n\n\ndef rounded_price(amount):\n    return 1\n')
    (folder / "lib" / "long.py").write_text(
        "".join(f"def zebra_{n}():\n    return {n}\n\n" for n in range(90))
    )
    (folder / "NOTES.md").write_text("# Warehouse\n\nprices come from here\n")
    (folder / "picture.bin").write_bytes(b"\x00prices\x00")
    return folder


def found(opened: Opened, text: str, **query: object) -> list[Match]:
    return opened.matcher.match(Query(parts=(QueryPart(text),), **query))  # type: ignore[arg-type]


def paths(matches: list[Match]) -> list[str]:
    return list(dict.fromkeys(match.chunk.path for match in matches))


def test_what_was_indexed_is_found_with_its_lines(opened: Opened, root: Path) -> None:
    report = opened.kept.update([root])

    assert (report.files, report.added) == (3, 3)
    match = found(opened, "rounded price")[0]
    assert (match.chunk.root, match.chunk.path) == (str(root.resolve()), "lib/prices.py")
    assert "def rounded_price" in match.chunk.text
    assert match.chunk.first_line <= 4 <= match.chunk.last_line
    assert any("round" in word for words in match.why.values() for word in words)


def test_the_text_of_a_piece_is_that_of_its_lines(opened: Opened, root: Path) -> None:
    opened.kept.update([root])
    lines = (root / "lib" / "long.py").read_text().splitlines()

    matches = [match for match in found(opened, "zebra_77") if match.chunk.path == "lib/long.py"]

    for match in matches:
        wanted = lines[match.chunk.first_line - 1 : match.chunk.last_line]
        assert match.chunk.text.split("\n") == wanted
    assert any("zebra_77" in match.chunk.text for match in matches)
    assert max(len(match.chunk.text.splitlines()) for match in matches) < 150


@pytest.mark.parametrize("strategy", ["content", "metadata"])
def test_scores_are_sorted_within_0_and_1_and_bounded(opened: Opened, root: Path, strategy: Strategy) -> None:
    opened.kept.update([root])

    matches = found(opened, "prices from the zebra warehouse", strategy=strategy, limit=3)

    scores = [match.score for match in matches]
    assert 0 < len(scores) <= 3
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_metadata_does_not_look_into_texts(opened: Opened, root: Path) -> None:
    opened.kept.update([root])

    assert "NOTES.md" in paths(found(opened, "come"))
    assert found(opened, "come", strategy="metadata") == []


def test_an_update_takes_in_what_is_new_changed_or_gone(opened: Opened, root: Path) -> None:
    opened.kept.update([root])
    (root / "new.txt").write_text("giraffe\n")
    (root / "NOTES.md").write_text("# Stable\n\nhorses, and no more of what was here before\n")
    (root / "lib" / "prices.py").unlink()

    report = opened.kept.update([root])

    assert (report.added, report.changed, report.removed) == (1, 1, 1)
    assert paths(found(opened, "giraffe")) == ["new.txt"]
    assert paths(found(opened, "horses")) == ["NOTES.md"]
    assert found(opened, "warehouse") == []
    assert opened.kept.facts(str(root.resolve()), "lib/prices.py") is None
    again = opened.kept.update([root])
    assert (again.added, again.changed, again.removed) == (0, 0, 0)


def test_facts_say_what_a_file_is(opened: Opened, root: Path) -> None:
    opened.kept.update([root])

    facts = opened.kept.facts(str(root.resolve()), "lib/prices.py")

    assert facts is not None
    assert (facts.lines, facts.language) == (5, "python")
    assert "rounded_price" in [symbol.name for symbol in facts.symbols]
    assert opened.kept.facts(str(root.resolve()), "picture.bin") is None
    assert opened.kept.facts(str(root.resolve()), "../x") is None


def test_a_question_can_be_for_some_roots_only(opened: Opened, root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "prices.txt").write_text("prices\n")
    opened.kept.update([root, other])

    assert {match.chunk.root for match in found(opened, "prices")} == {str(root), str(other)}
    assert paths(found(opened, "prices", roots=(str(other),))) == ["prices.txt"]
    opened.kept.drop([other])
    assert found(opened, "prices", roots=(str(other),)) == []
    assert found(opened, "prices")
    opened.kept.drop()
    assert found(opened, "prices") == []


def test_a_link_does_not_lead_out(opened: Opened, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("canary\n")
    (root / "link.txt").symlink_to(outside / "secret.txt")
    (root / "folder").symlink_to(outside)
    (root / "up").symlink_to("..")
    (root / "loop").symlink_to(".")

    opened.kept.update([root])

    assert found(opened, "canary") == []
    assert found(opened, "secret") == []


def test_progress_is_told(opened: Opened, root: Path) -> None:
    told: list[IndexProgress] = []

    opened.kept.update([root], told.append)

    assert told
    assert told[-1].seen >= 3
    assert told[-1].changed >= 3


@pytest.mark.parametrize(
    "text", ["", " ", '"', "a AND", "NEAR(", "*", "\x00", "\ud800", "é" * 10_000, "path:x", "'; --", "🦓"]
)
def test_no_text_of_a_question_is_an_error(opened: Opened, root: Path, text: str) -> None:
    opened.kept.update([root])

    assert isinstance(found(opened, text), list)
