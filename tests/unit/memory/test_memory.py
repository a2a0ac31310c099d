"""Questions to memory, on an index that is kept in memory."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from weft.clock import ManualClock
from weft.evaluator.effects import ContextQuery
from weft.language.task_fields import ContextAssembly
from weft.memory.errors import IndexBusy
from weft.memory.index import SqliteIndex
from weft.memory.matching import LexicalMatcher
from weft.memory.memory import REFRESH_SECONDS, IndexUnavailable, MatchingFailed, Memory
from weft.memory.protocol import IndexProgress, IndexReport, Match, Query
from weft.memory.simple_index import SimpleIndex


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


def paths(memory: Memory, assembly: ContextAssembly | None = None, **query: object) -> list[str | None]:
    found = memory.get_relevant_context_for(ContextQuery(**query), assembly=assembly)  # type: ignore[arg-type]
    assert found.error is None
    return [item.source_path for item in found.matches]


def test_the_best_file_comes_first_and_the_summary_names_what_was_found(shop: Path) -> None:
    found = a_memory(shop).get_relevant_context_for(ContextQuery(query="rounded price"))

    assert found.matches[0].source_path in ("prices.py", "tests/test_prices.py")
    assert "def rounded_price" in found.matches[0].content + found.matches[1].content
    assert found.context_summary.startswith("4 files match for 'rounded price': ")
    assert sorted((item.relevance_score for item in found.matches), reverse=True) == [
        item.relevance_score for item in found.matches
    ]


def test_nothing_found_is_an_answer(shop: Path) -> None:
    found = a_memory(shop).get_relevant_context_for(ContextQuery(query="zebra"))

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


def test_a_summary_is_what_the_strategy_metadata_gives(shop: Path) -> None:
    found = a_memory(shop).get_relevant_context_for(ContextQuery(query="mail", matching_strategy="metadata"))

    assert [(item.source_path, item.content_type) for item in found.matches] == [("mail.py", "file_summary")]
    assert "send_mail" in found.matches[0].content
    assert "return" not in found.matches[0].content


def test_only_files_of_the_roots_are_found(shop: Path, tmp_path: Path) -> None:
    index = SimpleIndex()
    index.update([tmp_path, shop])

    found = Memory(index, index, [shop / "tests"]).get_relevant_context_for(ContextQuery(query="price"))

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
        [item] = memory.get_relevant_context_for(ContextQuery(query="send mail")).matches
        assert "new address" in item.content

        (shop / "mail.py").write_text("def nothing():\n    pass\n")
        assert paths(memory, query="send mail") == ["mail.py"]  # its name still fits
        (shop / "mail.py").unlink()
        assert paths(memory, query="send mail") == []
        assert len(looks) == 1
    finally:
        memory.close()


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
    result = memory.get_relevant_context_for(ContextQuery(query="mail"))

    assert result.matches[0].source_path == "mail.py"
    assert "is being indexed by another process" in (result.error or "")
    assert memory.find(ContextQuery(query="mail")).warnings == (result.error,)


class _BrokenMatcher:
    def match(self, query: Query) -> list[Match]:
        raise RuntimeError("no such table")


def test_what_fails_is_told_in_the_answer_and_raised_by_find(shop: Path) -> None:
    query = ContextQuery(query="x")
    broken = Memory(_Broken(), SimpleIndex(), [shop])
    unmatched = Memory(SimpleIndex(), _BrokenMatcher(), [shop])

    assert "the disk is full" in (broken.get_relevant_context_for(query).error or "")
    assert "no such table" in (unmatched.get_relevant_context_for(query).error or "")
    with pytest.raises(IndexUnavailable):
        broken.find(query)
    with pytest.raises(MatchingFailed):
        unmatched.find(query)
    with pytest.raises(IndexUnavailable, match="no folder"):
        a_memory(shop / "none").find(query)
    with pytest.raises(MatchingFailed, match="content or metadata"):
        a_memory(shop).find(ContextQuery(query="x", matching_strategy="guess"))


def test_progress_is_told(shop: Path) -> None:
    told: list[IndexProgress] = []
    a_memory(shop, on_progress=told.append).find(ContextQuery(query="x"))

    assert (told[-1].seen, told[-1].changed, told[-1].total) == (4, 4, 4)
