"""Files by the words in them: which come first, which chunk, and why."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from weft.memory.index.index import SqliteIndex
from weft.memory.protocol import Match, Query, QueryPart
from weft.memory.search import lookup
from weft.memory.search.matcher import LexicalMatcher

Ask = Callable[..., list[Match]]
FILLER = "".join(f"value_{number} = {number}\n" for number in range(60))


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SqliteIndex]:
    index = SqliteIndex(tmp_path / "index.db")
    yield index
    index.close()


@pytest.fixture
def ask(index: SqliteIndex, tmp_path: Path) -> Iterator[Ask]:
    """Yield a function that writes files, indexes them and asks."""
    matcher = LexicalMatcher(index)

    def ask(files: dict[str, str], *parts: str | QueryPart, **options: object) -> list[Match]:
        (tmp_path / "root").mkdir(exist_ok=True)
        for path, text in files.items():
            file = tmp_path / "root" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        index.update([tmp_path / "root"])
        asked = tuple(part if isinstance(part, QueryPart) else QueryPart(part) for part in parts)
        return matcher.match(Query(parts=asked, **options))  # type: ignore[arg-type]

    yield ask
    matcher.close()


def paths(matches: list[Match]) -> list[str]:
    return list(dict.fromkeys(match.chunk.path for match in matches))


def test_the_chunk_that_holds_the_words_is_given_not_the_whole_file(ask: Ask) -> None:
    text = FILLER + "\n\ndef parse_header(line):\n    return line.split(':')\n\n\n" + FILLER

    [match, *_] = ask({"wire.py": text, "other.py": FILLER}, "parse a header")

    assert "def parse_header" in match.chunk.text
    assert match.chunk.first_line > 1
    assert match.chunk.last_line < len(text.splitlines())


@pytest.mark.parametrize(
    "query", ["event loop", "EventLoop", "event_loop", "app.event_loop", "events looping"]
)
@pytest.mark.parametrize("name", ["EventLoop", "event_loop", "eventLoop", "HTTPEventLoop"])
def test_names_are_found_in_any_spelling(ask: Ask, query: str, name: str) -> None:
    matches = ask({"a.py": f"{FILLER}{name} = 1\n", "b.py": FILLER, "c.py": FILLER}, query)

    assert paths(matches) == ["a.py"]


@pytest.mark.parametrize("line", [1, 1_000, 20_000])
def test_lines_are_given_wherever_they_are_in_a_large_file(ask: Ask, line: int) -> None:
    lines = [f"value_{number} = {number}" for number in range(1, 20_001)]
    lines[line - 1] = "purse = 1"

    chunk = ask({"a.py": "\n".join(lines) + "\n"}, "purse")[0].chunk

    assert chunk.text.split("\n") == lines[chunk.first_line - 1 : chunk.last_line]
    assert chunk.first_line <= line <= chunk.last_line


def test_why_says_the_words_by_field(ask: Ask) -> None:
    text = '"""Retries of requests."""\n\n\ndef backoff(attempt):\n    return 2**attempt  # jitter\n'

    [match] = ask({"net/retry.py": text}, "retry with backoff and jitter")

    assert match.why["path"] == ("retry",)
    assert match.why["symbols"] == ("backoff",)
    assert set(match.why["content"]) == {"retry", "backoff", "jitter"}


def test_metadata_looks_at_paths_symbols_and_headings_only(ask: Ask) -> None:
    files = {
        "in_text.py": FILLER + "# the quota is checked elsewhere: quota, quota\n",
        "in_symbols.py": FILLER + "def check_quota():\n    pass\n",
        "in_heading.md": "# Quota\n\nText.\n",
        "quota/path.py": FILLER,
    }

    assert set(paths(ask(files, "quota", strategy="metadata"))) == files.keys() - {"in_text.py"}
    assert set(paths(ask(files, "quota"))) == files.keys()


def test_only_files_of_the_roots_that_are_asked_for(index: SqliteIndex, tmp_path: Path) -> None:
    for root in ("one", "two"):
        (tmp_path / root).mkdir()
        (tmp_path / root / "quota.py").write_text("def quota(): ...\n")
    index.update([tmp_path / "one", tmp_path / "two"])
    matcher = LexicalMatcher(index)
    one = str((tmp_path / "one").resolve())

    matches = matcher.match(Query(parts=(QueryPart("quota in quota.py"),), roots=(one,)))
    matcher.close()

    assert [match.chunk.root for match in matches] == [one]


def test_a_part_of_more_weight_decides(ask: Ask) -> None:
    files = {"red.py": "apple = 1\n" + FILLER, "yellow.py": "banana = 1\n" + FILLER}
    light, heavy = QueryPart("apple", 0.3), QueryPart("banana", 1.0)

    assert paths(ask(files, light, heavy))[0] == "yellow.py"
    assert paths(ask(files, QueryPart("apple", 1.0), QueryPart("banana", 0.3)))[0] == "red.py"


def test_a_long_context_does_not_drown_the_question(ask: Ask) -> None:
    files = {
        "banana.py": "banana = 1\n" + FILLER,
        "long.py": " ".join(f"context{n} = {n};" for n in range(300)),
    }
    context = QueryPart(" ".join(f"context{number}" for number in range(300)), 0.3)

    assert paths(ask(files, QueryPart("banana"), context))[0] == "banana.py"


def test_a_test_file_comes_after_what_it_tests_unless_tests_are_asked_for(ask: Ask) -> None:
    body = "def check_quota():\n    return quota\n"
    files = {"quota.py": body + FILLER, "tests/test_quota.py": body + FILLER}

    assert paths(ask(files, "check the quota"))[0] == "quota.py"
    assert paths(ask(files, "tests of the quota check"))[0] == "tests/test_quota.py"


def test_a_file_that_is_named_needs_no_word_of_the_query_in_it(ask: Ask) -> None:
    files = {"src/zeta.py": "x = 1\n", "src/quota.py": "quota = 1\n"}

    assert paths(ask(files, "the quota of src/zeta.py"))[0] == "src/zeta.py"
    assert paths(ask(files, "the quota of zeta.py."))[0] == "src/zeta.py"


def test_a_name_that_many_files_have_names_none_of_them(ask: Ask) -> None:
    files = {f"p{number}/__init__.py": "x = 1\n" for number in range(8)} | {"quota.py": "quota = 1\n" * 5}

    assert paths(ask(files, "import quota in __init__.py"))[0] == "quota.py"


def test_stop_words_count_when_there_is_nothing_else(ask: Ask) -> None:
    assert paths(ask({"a.py": "# to be or not to be\n", "b.py": FILLER}, "to be or not to be")) == ["a.py"]


def test_nothing_fits_in_an_empty_index(ask: Ask) -> None:
    assert ask({}, "anything") == []


def test_a_file_with_exactly_the_name_that_is_asked_for_comes_first(ask: Ask) -> None:
    many = "\n".join(f"purse_{number} = purse(purse)" for number in range(60))
    files = {"scope_purse.py": many, "use.py": many, "purse.py": "x = 1\n", "pocket/purses.py": FILLER}

    assert paths(ask(files, "purse"))[:2] == ["purse.py", "pocket/purses.py"]


def test_a_name_that_more_files_have_than_can_be_meant_puts_none_of_them_first(ask: Ask) -> None:
    files = {f"p{number}/purse.py": "x = 1\n" for number in range(6)}
    files["use.py"] = "\n".join(f"purse_{number} = purse(purse)" for number in range(60))

    assert paths(ask(files, "purse"))[0] == "use.py"


def test_common_words_decide_between_files_that_rarer_ones_found(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "MAX_ROWS", 2)
    files = {f"other{number}.py": "common = 1\n" for number in range(20)}
    files |= {"a.py": "quota = 1\n", "b.py": "quota = common\n"}

    assert paths(ask(files, "the common quota")) == ["b.py", "a.py"]


def test_a_word_of_nearly_every_file_is_looked_up_when_there_is_no_other(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "MAX_ROWS", 2)
    monkeypatch.setattr(lookup, "MAX_PASSED", 3)

    assert len(paths(ask({f"f{number}.py": "common = 1\n" for number in range(8)}, "common"))) == 8


def test_how_rare_a_word_is_does_not_depend_on_other_roots(
    ask: Ask, index: SqliteIndex, tmp_path: Path
) -> None:
    files = {"zebra.txt": "zebra\n", "x.txt": "lion lion\n"} | {f"y{n}.txt": "lion\n" for n in range(20)}
    root = str(tmp_path / "root")
    alone = ask(files, "zebra lion", roots=(root,))
    (tmp_path / "zoo").mkdir()
    for number in range(100):
        (tmp_path / "zoo" / f"z{number}.txt").write_text("zebra\n")
    index.update([tmp_path / "zoo"])

    beside = ask(files, "zebra lion", roots=(root,))

    assert paths(beside)[0] == paths(alone)[0] == "zebra.txt"
    assert {match.chunk.root for match in beside} == {root}
    assert [match.score for match in beside] == pytest.approx([match.score for match in alone], abs=0.02)


def test_the_score_of_a_very_common_word_does_not_depend_on_how_far_rows_are_counted(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"f{number}.py": "common = 1\n" for number in range(30)}
    files |= {f"o{number}.py": "other = 1\n" for number in range(10)}
    counted = ask(files, "common")
    monkeypatch.setattr(lookup, "MAX_PASSED", 4)

    assert [match.score for match in ask({}, "common")] == pytest.approx([each.score for each in counted])


def test_why_is_said_of_a_word_that_stands_late_in_a_long_line(ask: Ask) -> None:
    (match,) = ask({"deep.py": "(" * 5000 + "needle" + ")" * 5000 + "\n"}, "needle")

    assert match.why == {"content": ("needle",)}
