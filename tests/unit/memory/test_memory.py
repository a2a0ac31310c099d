"""Questions to memory, on an index that is kept in memory."""

import ctypes
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from weft.clock import ManualClock
from weft.evaluator.effects import ContextQuery
from weft.evaluator.results import AssociativeMatchResult
from weft.language.task_fields import ContextAssembly
from weft.memory.errors import IndexBusy, IndexFileFailed
from weft.memory.index.index import SqliteIndex
from weft.memory.memory import REFRESH_SECONDS, IndexUnavailable, MatchingFailed, Memory
from weft.memory.protocol import IndexProgress, IndexReport, Match, Query
from weft.memory.search.matcher import LexicalMatcher
from weft.testing.simple_index import SimpleIndex


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    (root / "tests").mkdir(parents=True)
    (root / "prices.py").write_text("def rounded_price(amount):\n    return round(amount, 2)\n")
    (root / "mail.py").write_text("def send_mail(to, price):\n    return to\n")
    (root / "tests" / "test_prices.py").write_text("def test_rounded_price():\n    pass\n")
    (root / "README.md").write_text("# Shop\n\nprices are rounded\n")
    return root


def a_memory(*roots: Path, **given: object) -> Memory:
    index = SimpleIndex()
    return Memory(index, index, roots, **given)  # type: ignore[arg-type]


def ask(
    memory: Memory, query: ContextQuery, assembly: ContextAssembly | None = None
) -> AssociativeMatchResult:
    """Return what a task would get, with failures in `error`."""
    try:
        found = memory.find(query, assembly=assembly)
    except (IndexUnavailable, MatchingFailed) as error:
        return AssociativeMatchResult(context_summary="", error=error.message)
    return replace(memory.result_of(query, found.matches), error="; ".join(found.warnings) or None)


def paths(memory: Memory, assembly: ContextAssembly | None = None, **query: object) -> list[str | None]:
    found = ask(memory, ContextQuery(**query), assembly=assembly)  # type: ignore[arg-type]
    assert found.error is None
    return [item.source_path for item in found.matches]


def test_the_best_file_comes_first_and_the_summary_names_what_was_found(shop: Path) -> None:
    found = ask(a_memory(shop), ContextQuery(query="rounded price"))

    assert found.matches[0].source_path in ("prices.py", "tests/test_prices.py")
    assert "def rounded_price" in found.matches[0].content + found.matches[1].content
    assert found.context_summary.startswith("4 files match for 'rounded price': ")
    assert sorted((item.relevance_score for item in found.matches), reverse=True) == [
        item.relevance_score for item in found.matches
    ]


def test_nothing_found_is_an_answer(shop: Path) -> None:
    found = ask(a_memory(shop), ContextQuery(query="zebra"))

    assert (found.matches, found.error) == ((), None)
    assert found.context_summary == "No file matches for 'zebra'."
    assert paths(a_memory(shop)) == []


def test_inputs_inherited_context_and_earlier_outputs_take_part(shop: Path) -> None:
    memory = a_memory(shop)

    assert paths(memory, query="zebra", inputs={"about": ["mail"]}) == ["mail.py"]
    assert paths(memory, query="zebra", inherited_context="mail") == ["mail.py"]
    assert paths(memory, query="zebra", previous_outputs="mail") == ["mail.py"]
    assert paths(memory, template_description="mail") == ["mail.py"]


def test_the_query_counts_more_than_what_is_around_it(shop: Path) -> None:
    found = paths(a_memory(shop), query="mail", previous_outputs="shop")

    assert found == ["mail.py", "README.md"]


def test_elements_of_the_author_order_and_exclude(shop: Path) -> None:
    memory = a_memory(shop)
    guidance = ContextAssembly(
        primary_elements="mail", secondary_elements="README.md", excluded_elements="tests"
    )

    assert paths(memory, guidance, query="rounded price") == ["mail.py", "README.md", "prices.py"]
    found = memory.find(ContextQuery(query="rounded price"), assembly=guidance)
    assert found.excluded == 1


def test_an_element_that_is_a_path_means_only_the_files_that_fit(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "lib").mkdir()
    (tmp_path / "docs" / "guide.md").write_text("# Guide\n\nhow things are sold\n")
    (tmp_path / "lib" / "docs_builder.py").write_text("def docs(): pass\n\ndef build_docs(): docs()\n")
    (tmp_path / "lib" / "prices.py").write_text("def price(thing): pass\n")
    index = SqliteIndex(tmp_path.parent / "elements.db")
    memory = Memory(index, LexicalMatcher(index), [tmp_path])
    try:
        for guidance, first in (
            (ContextAssembly(primary_elements="docs/*"), ["docs/guide.md", "lib/prices.py"]),
            (ContextAssembly(secondary_elements="docs/*"), ["docs/guide.md", "lib/prices.py"]),
        ):
            assert paths(memory, guidance, query="price a thing") == first
    finally:
        memory.close()


def test_a_file_of_roots_that_lie_in_one_another_is_given_once(shop: Path) -> None:
    memory = a_memory(shop, shop / "tests", shop)

    found = memory.find(ContextQuery(query="rounded price"), limit=4)

    pieces = [Path(match.chunk.root, match.chunk.path) for match in found.matches]
    assert len(pieces) == len(set(pieces)) == 4


def test_as_much_as_is_asked_for_is_found_behind_what_is_excluded(shop: Path) -> None:
    for number in range(30):
        (shop / "tests" / f"price{number}.py").write_text("price price price\n")

    guidance = ContextAssembly(excluded_elements="tests")
    found = a_memory(shop).find(ContextQuery(query="price"), limit=3, assembly=guidance)

    assert {match.chunk.path for match in found.matches} == {"mail.py", "prices.py", "README.md"}


def test_a_summary_is_what_the_strategy_metadata_gives(shop: Path) -> None:
    found = ask(a_memory(shop), ContextQuery(query="mail", matching_strategy="metadata"))

    assert [(item.source_path, item.content_type) for item in found.matches] == [("mail.py", "file_summary")]
    assert "send_mail" in found.matches[0].content
    assert "return" not in found.matches[0].content


def test_only_files_of_the_roots_are_found(shop: Path, tmp_path: Path) -> None:
    index = SimpleIndex()
    index.update([tmp_path, shop])

    found = ask(Memory(index, index, [shop / "tests"]), ContextQuery(query="price"))

    assert [item.source_path for item in found.matches] == ["test_prices.py"]


class _Slow(SimpleIndex):
    """Takes its time, as a large folder does."""

    def __init__(self, clock: ManualClock, seconds: float) -> None:
        super().__init__()
        self._clock = clock
        self._takes = timedelta(seconds=seconds)

    def update(self, roots: Sequence[Path], on_progress: object = None) -> IndexReport:
        self._clock.advance(self._takes)
        return super().update(roots)


@pytest.mark.parametrize(("takes", "again"), [(0.01, 1.0), (0.5, 10.0), (40.0, REFRESH_SECONDS)])
def test_new_files_are_looked_for_when_that_costs_little_or_the_last_look_is_old(
    shop: Path, takes: float, again: float
) -> None:
    clock, told = ManualClock(), list[IndexReport]()
    index = _Slow(clock, takes)
    memory = Memory(index, index, [shop], clock=clock, on_updated=told.append)
    assert paths(memory, query="zebra") == []
    (shop / "zebra.txt").write_text("zebra")

    clock.advance(timedelta(seconds=again - takes - 0.1))
    assert paths(memory, query="zebra") == []
    clock.advance(timedelta(seconds=0.2))
    assert paths(memory, query="zebra") == ["zebra.txt"]
    assert [report.added for report in told] == [4, 1]


def test_an_answer_is_of_the_files_as_they_are(shop: Path) -> None:
    clock = ManualClock()
    index = SqliteIndex(shop.parent / "index.db")
    looks = list[IndexReport]()
    memory = Memory(index, LexicalMatcher(index), [shop], clock=_Ticking(clock), on_updated=looks.append)
    try:
        assert set(paths(memory, query="send mail")) == {"mail.py"}
        (shop / "mail.py").write_text("def send_letter(to):\n    return 'mail for the new address'\n")
        [item] = ask(memory, ContextQuery(query="send mail")).matches
        assert "new address" in item.content

        (shop / "mail.py").write_text("def nothing():\n    pass\n")
        assert paths(memory, query="send mail") == ["mail.py"]  # its name still fits
        (shop / "mail.py").unlink()
        assert paths(memory, query="send mail") == []
        assert len(looks) == 1
    finally:
        memory.close()


@contextmanager
def without_rights_over_files() -> Iterator[None]:
    """Apply the file permissions of an ordinary user to this thread, even if it is root's."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this thread
    rights = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice 32 of them
    assert libc.capget(header, rights) == 0
    had = rights[0]
    rights[0] &= ~0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    assert libc.capset(header, rights) == 0
    try:
        yield
    finally:
        rights[0] = had
        assert libc.capset(header, rights) == 0


class _Ticking:
    """A clock by which every look takes a second, and nothing else takes time."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        self._clock.advance(timedelta(seconds=1))
        return self._clock.now()


class _Taken(SimpleIndex):
    """Another process updates it from now on."""

    def update_paths(self, root: Path, paths: Sequence[str]) -> IndexReport:
        raise IndexBusy(str(root))


def test_a_changed_file_that_another_process_will_take_in_is_answered_as_it_was(shop: Path) -> None:
    clock = ManualClock()
    index = _Taken()
    memory = Memory(index, index, [shop], clock=_Ticking(clock))
    paths(memory, query="mail")
    (shop / "mail.py").write_text("something else")

    assert paths(memory, query="mail")[0] == "mail.py"


@pytest.mark.skipif(sys.platform != "linux", reason="rights of a thread are Linux's")
def test_nothing_is_given_of_a_file_that_may_not_be_read_any_more(shop: Path) -> None:
    index = SqliteIndex(shop.parent / "index.db")
    memory = Memory(index, LexicalMatcher(index), [shop], clock=_Ticking(ManualClock()))
    try:
        with without_rights_over_files():
            assert "prices.py" in paths(memory, query="rounded price")
            (shop / "prices.py").chmod(0)
            found = memory.find(ContextQuery(query="rounded price"))
    finally:
        memory.close()

    assert {match.chunk.path for match in found.matches} == {"mail.py", "README.md", "tests/test_prices.py"}


@pytest.mark.skipif(sys.platform != "linux", reason="rights of a thread are Linux's")
def test_a_file_that_may_not_be_read_for_a_while_is_told_and_then_given_again(shop: Path) -> None:
    index = _Taken()
    memory = Memory(index, index, [shop], clock=_Ticking(ManualClock()))
    with without_rights_over_files():
        memory.find(ContextQuery(query="rounded price"))
        (shop / "prices.py").chmod(0)
        found = ask(memory, ContextQuery(query="rounded price"))
        (shop / "prices.py").chmod(0o600)
        again = paths(memory, query="rounded price")

    assert "prices.py" not in [item.source_path for item in found.matches]
    assert found.error == f"no permission to read '{shop / 'prices.py'}': it is left out"
    assert "prices.py" in again


class _Broken(SimpleIndex):
    def update(self, roots: Sequence[Path], on_progress: object = None) -> IndexReport:
        raise OSError("the disk is full")


class _Busy(SimpleIndex):
    def update(self, roots: Sequence[Path], on_progress: object = None) -> IndexReport:
        raise IndexBusy(str(roots[0]))


def test_an_index_that_another_process_updates_answers_with_what_it_knows(shop: Path) -> None:
    index = _Busy()
    SimpleIndex.update(index, [shop])

    memory = Memory(index, index, [shop])
    result = ask(memory, ContextQuery(query="mail"))

    assert result.matches[0].source_path == "mail.py"
    assert "another process is updating the index" in (result.error or "")
    assert memory.find(ContextQuery(query="mail")).warnings == (result.error,)


class _Full(SimpleIndex):
    def update(self, roots: Sequence[Path], on_progress: object = None) -> IndexReport:
        raise IndexFileFailed("weft.db", "the disk is full")


def test_an_index_that_cannot_be_written_answers_with_what_it_knows(shop: Path) -> None:
    index = _Full()
    with pytest.raises(IndexUnavailable, match="the disk is full"):  # as long as it knows nothing
        Memory(index, index, [shop]).find(ContextQuery(query="mail"))
    SimpleIndex.update(index, [shop])

    result = ask(Memory(index, index, [shop]), ContextQuery(query="mail"))

    assert result.matches[0].source_path == "mail.py"
    assert "the disk is full" in (result.error or "")


@pytest.mark.skipif(sys.platform != "linux", reason="rights are taken away as Linux does it")
def test_an_index_in_a_folder_that_may_not_be_written_is_read(shop: Path, tmp_path: Path) -> None:
    path = tmp_path / "store" / "weft.db"
    with closing(SqliteIndex(path)) as index:
        index.update([shop])
    path.chmod(0o400)
    path.parent.chmod(0o500)

    with (
        without_rights_over_files(),
        closing(SqliteIndex(path)) as index,
        closing(LexicalMatcher(index)) as matcher,
    ):
        found = ask(Memory(index, matcher, [shop]), ContextQuery(query="mail"))
        files = index.status()["files"]
    path.parent.chmod(0o700)

    assert (files, found.matches[0].source_path) == (4, "mail.py")
    assert "it is read-only" in (found.error or "")


class _BrokenMatcher:
    def match(self, query: Query) -> list[Match]:
        raise RuntimeError("no such table")


def test_what_fails_is_told_in_the_answer_and_raised_by_find(shop: Path) -> None:
    query = ContextQuery(query="x")
    broken = Memory(_Broken(), SimpleIndex(), [shop])
    unmatched = Memory(SimpleIndex(), _BrokenMatcher(), [shop])

    assert "the disk is full" in (ask(broken, query).error or "")
    assert "no such table" in (ask(unmatched, query).error or "")
    with pytest.raises(IndexUnavailable):
        broken.find(query)
    with pytest.raises(MatchingFailed):
        unmatched.find(query)
    with pytest.raises(IndexUnavailable, match="not a folder"):
        a_memory(shop / "none").find(query)
    with pytest.raises(MatchingFailed, match="content or metadata"):
        a_memory(shop).find(ContextQuery(query="x", matching_strategy="guess"))


def test_progress_is_told(shop: Path) -> None:
    told: list[IndexProgress] = []
    a_memory(shop, on_progress=told.append).find(ContextQuery(query="x"))

    assert (told[-1].seen, told[-1].changed, told[-1].total) == (4, 4, 4)
